"""`python -m benchmarks [NAME ...]`: measure, print, and write results/*.json.

