"""The commands of `edrl`: each a record of its flags that can be called."""
