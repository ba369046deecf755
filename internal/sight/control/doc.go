// Package control lets the user's other processes see and direct a running job. Each job serves
// HTTP on a unix socket in a folder that only its user may enter (docs/protocol.md), and leaves a
// line in a history when it ends. A detached job also keeps its output in files.
package control
