// Package elastic decides what becomes of a job whose hosts come and go: which processes run where, who survives into
// which epoch, and when the job ends.
//
// A [Driver] is a pure state machine like the launcher's core: events and times in, actions out. It needs no clock but the times
// that it is handed, and a [Tick] at least every second. What is found out about hosts comes from a [Script], whose output
// [Parse] reads and [Sightings] believes or not.
//
// The driver speaks of slots: a host and a number on it, which a process there keeps for life. A
// process is known by its slot and by the epoch that it was started for (Born): no two have both the same.
//
// What carries the actions out has duties of its own:
//   - A [Start] is answered by [Ready] (the process waits to be let in), or by [Exited] or [StartFailed].
//   - A [Stop] is answered by [Exited]: TERM, the grace, KILL. So is the end of any process, once.
//   - A [Fence] is answered by [HostFenced] when nothing of the job can be alive on the host any more. Should no answer come, the lease
//     must see to it within Config.Fence.
//   - [Announce] lets the processes that wait into the epoch: the parked get their new numbers, the ready begin with those of
//     their Start. [Joined] is said of each when it has found the others.
package elastic
