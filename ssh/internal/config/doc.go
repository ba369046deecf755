// Package config reads OpenSSH's client configuration: which options count for a host, and which
// hosts it names. It evaluates Host and Include by itself. What it cannot judge, Match above all,
// it reports, and Ask has ssh print the options.
package config
