"""What `make.py` writes: a module for each kind of reference."""
