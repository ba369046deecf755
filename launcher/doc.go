// Package launcher plans a job and runs it on hosts it is handed.
//
// [NewPlan] is pure: hosts and a request in, ranks on hosts out. [Run] connects
// to every host through the caller's [Dialer], starts gorun's agent there
// (uploading it when it is missing), starts the ranks once every host is ready,
// prints their output, and ends everything when one fails, when the caller's
// context ends, or when all are done. It knows nothing of SSH: a [Host] is anything
// that can run a command and take a file.
package launcher
