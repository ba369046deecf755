// Package config reads OpenSSH's client configuration: which options count for a host, and which
// hosts it names. It evaluates Host and Include by itself. It reports lines that it cannot
// evaluate, such as Match; Ask then gets the options from ssh -G.
package config
