// Package keep holds SSH connections to hosts for the jobs of one user, and serves them on a
// control socket. Each job gets agents of its own: a keeper carries bytes, and knows neither jobs
// nor ranks.
package keep
