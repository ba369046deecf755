// Package python holds the Python package gorun, and tests that run it as ranks of real jobs.
package python
