// Package gpucheck holds the Python programs of `make gpu-test`: check.py makes the checks, and
// ranks.py is one rank of them. Its tests run the parts that need no GPU.
package gpucheck
