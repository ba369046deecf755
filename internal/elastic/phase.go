package elastic

// Phase is what an elastic job does. The driver's other fields hold what a phase needs to know, and
// restate no phase.
type Phase int

// Phases. An epoch goes from Joining to Working, often through Draining, and by Broken and Parking
// back to Forming.
const (
	Forming   Phase = iota // no process works: the next epoch is being formed, or there are too few slots
	Joining                // an epoch was announced, and its members look for each other
	Working                // all members of the epoch have joined
	Draining               // the members work, and were asked to park because hosts have changed
	Broken                 // the epoch cannot go on, and its members were not yet asked to park
	Parking                // the epoch cannot go on: its members park or are stopped
	Finishing              // a rank has exited with 0: no further epoch begins
	Stranded               // Finishing, with ranks left that cannot go on
	Ending                 // all processes are being stopped
	Ended                  // no process is left
)

// final reports whether no further epoch begins.
func (p Phase) final() bool { return p >= Finishing }

func (d *Driver) enter(p Phase) {
	d.phase = p
	d.since = d.now
}

// underway reports whether the current epoch can continue.
func (d *Driver) underway() bool {
	return d.phase == Joining || d.phase == Working || d.phase == Draining
}

// wasWhole reports whether all members of the epoch in force have joined, even if it is over.
func (d *Driver) wasWhole() bool { return d.inForce != nil && d.lastWhole == d.inForce.Epoch }

// Phase returns what the job does.
func (d *Driver) Phase() Phase { return d.phase }

// Established reports whether an epoch was whole once.
func (d *Driver) Established() bool { return d.lastWhole > 0 }

// Unaware reports whether the ranks count as unaware of epochs: the first failure ends the job.
func (d *Driver) Unaware() bool { return d.unaware }

// Stopping reports whether a process is being stopped, and whether without grace.
func (d *Driver) Stopping(name Process) (stops, now bool) {
	p := d.find(name)
	return p != nil && p.life == stopping, p != nil && p.now
}
