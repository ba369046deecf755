package mutants

import "slices"

// All are all mutants, in no order that matters.
func All() []Mutant {
	return slices.Concat(agents(), launchers(), protocols(), doors(), epochs(), rings(), libraries())
}

func agents() []Mutant {
	const pkg = "./internal/agent"
	core, output := "internal/agent/core.go", "internal/agent/output.go"
	return []Mutant{
		{"the agent sends no heartbeat", "internal/agent/agent.go", "\t\t\ta.sendHeartbeat()\n", "", pkg, "^TestServeStopsReadingWithoutCredit$"},
		{"the agent checks no lease", core, "now-c.heard > c.lease {", "now-c.heard > 1000*c.lease {", pkg, "^TestCore"},
		{"no CONT comes with TERM", core, ", actSignal{rank, syscall.SIGCONT})", ")", pkg, "^TestCore"},
		{"a stop has no grace", core, "c.stopping, c.killAt, c.still = true, now+grace, false", "c.stopping, c.killAt, c.still = true, now, false", pkg, "^TestCore"},
		{"the agent ends before output is out", core, "if (!r.exited && !c.stuck) || (r.streams > 0 && !c.gone && !c.flushed) {", "if !r.exited && !c.stuck {", pkg, "^TestCore"},
		{"no KILL after the grace", core, "return []any{actKillTree{}}", "return nil", pkg, "^TestCore"},
		{"pauses in a line are not told", output, "if midline && p.out", "if midline && buf == nil && p.out", pkg, "^TestPumpTellsOfPauses$"},
		{"a pipe that a child holds is never cut", output, "return !p.endBy.IsZero() && !time", "return p.endBy.IsZero() && !time", pkg, "^TestPumpCuts"},
		{"ranks have no death signal", "internal/agent/processes_linux.go", "Setsid: true, Pdeathsig: syscall.SIGKILL", "Setsid: true", pkg, "^TestRanksDieWithGuardAndAgent$"},
		{"a rank shares the agent's session", "internal/agent/processes_linux.go", "Setsid: true, Pdeathsig", "Pdeathsig", pkg, "^TestRanksStandAlone$"},
		{"who ends already counts as told to", core, "|| !slices.Contains(ending, rank)", "|| len(ending) >= 0", pkg, "^TestExitTells"},
		{"the guard does not sweep", "internal/contain/cage_linux.go", "left = c.Kill()", "left = nil", "./internal/contain", "^TestSweepLeavesNothing$"},
		{"a pid is taken for the process", "internal/contain/process_linux.go", "again.Started != p.Started", "again.PID != p.PID", "./internal/contain", "^TestKillSparesAStranger$"},
		{"a job's ranks are not checked", "internal/agent/agent.go", "err = checkRanks(a.job)", "err = nil", pkg, "^TestMadJobsLeaveNothing$"},
		{"input beyond its credit is kept", "internal/agent/stdin.go", "if s.queued+len(data) > wire.Window {", "if s.queued < 0 {", pkg, "Stdin|Input"},
	}
}

func launchers() []Mutant {
	const pkg = "./launcher"
	core, run, distrust, outbox := "launcher/core.go", "launcher/run.go", "launcher/distrust.go", "launcher/outbox.go"
	return []Mutant{
		{"a hung agent is waited for", run, "silent > hungTime &&", "silent > 1000*hungTime &&", pkg, "^TestRunGivesUpAHungAgent$"},
		{"the first to be heard of is the cause", core, "first.Victim == f.Victim && at < firstAt", "first.Victim == f.Victim && at < firstAt-1<<60", pkg, "^TestCore"},
		{"victims count as causes", core, "\t\tc.victims[l.By] = l.Rank\n", "", pkg, "^TestCore"},
		{"the second Ctrl-C is like the first", core, "if e.now {", "if e.now && now < 0 {", pkg, "^TestCore|^TestRunStopsWhenTheUserWants$"},
		{"agents that never answer are waited for", core, "if c.stopping && now >= c.giveUpAt {", "if c.stopping && now >= 1000*c.giveUpAt {", pkg, "^TestCore|^TestRunStopsWhenTheUserWants$"},
		{"credit is not returned", outbox, "\t\tif n >= creditStep {\n\t\t\to.send(", "\t\tif n < 0 {\n\t\t\to.send(", pkg, "^TestOutboxGivesCreditInSteps$"},
		{"answers pile up for a host that reads nothing", outbox, "for o.waits > maxAnswers &&", "for o.waits < 0 &&", pkg, "^TestHostWhoReadsNothing"},
		{"no bound on what waits for a host", outbox, "o.waits > maxWaits {", "o.waits < 0 {", pkg, "^TestOutboxGivesUpAHost"},
		{"output beyond its credit is taken", outbox, "o.open[stream] > wire.Window {", "o.open[stream] < 0 {", pkg, "^TestHostileAgentIsBlamed$"},
		{"a host may speak for others' ranks", distrust, "case !s.owns(e.Rank):", "case e.Rank < 0:", pkg, "^TestHostileAgentIsBlamed$"},
		{"a host may lose ranks in others' names", distrust, "case !s.owns(l.By):", "case l.By < 0:", pkg, "^TestHostileAgentIsBlamed$"},
		{"a rank may end twice", distrust, "case s.said.exited[e.Rank]:", "case e.Rank < 0:", pkg, "^TestHostileAgentIsBlamed$"},
		{"a host is done before its ranks", distrust, "if !s.said.exited[r.Rank] {", "if r.Rank < 0 {", pkg, "^TestHostileAgentIsBlamed$"},
		{"a host's clock is believed", distrust, "return max(from, min(at, to))", "return at", pkg, "^TestHostileClock$"},
		{"a host's text reaches the terminal as it is", distrust, "return printable(text[:min(len(text), maxText)])", "return text", pkg, "^TestHostileAgentBeforeTheStart$"},
		{"a rank may fill the terminal", distrust, "return s.said.notes <= maxNotes, nil", "return s.said.notes > 0, nil", pkg, "^TestHostileFloods$"},
		{"requests for keys have no bound", "launcher/fences.go", "if s.gets.Add(1) > maxGets {", "if s.gets.Add(1) < 0 {", pkg, "^TestHostileAgentIsBlamed$"},
		{"another build is spoken to", "launcher/session.go", "version.Protocol != wire.Protocol || version.Build != build", "version.Protocol != wire.Protocol", pkg, "^TestOpenSession"},
		{"secrets are sent to hosts", "launcher/env.go", "case secret(name):", "case name == \"\" && secret(name):", pkg, "^TestForwardEnv"},
	}
}

func protocols() []Mutant {
	return []Mutant{
		{"frames have no cap", "internal/wire/frame.go", "case size > f.Type.maxPayload():", "case size < 0:", "./internal/wire", "^TestMalformedFramesAreRefused$"},
		{"a claimed length is allocated", "internal/wire/frame.go", "want := min(size, have+growStep)", "want := size", "./internal/wire", "^TestAClaimedLength"},
		{"the preamble's nonce is not compared", "internal/wire/preamble.go", "\"\\x00gorun-agent \" + nonce + \"\\n\"", "\"\\x00gorun-agent \\n\"", "./internal/wire", "^TestPreambleOfAnother"},
		{"credit may come from nothing", "internal/wire/credit.go", "if c.left+n > Window {", "if c.left < 0 {", "./internal/wire", "^TestCredit"},
		{"a changed host key is accepted", "ssh/hostkey.go", "return &ChangedHostKeyError{k.target, k.fact(key), old}", "return nil", "./ssh", "^TestChangedHostKey$"},
		{"a revoked host key is accepted", "ssh/hostkey.go", "return &RevokedHostKeyError{k.target, k.fact(key), k.place(revoked.Revoked)}", "return nil", "./ssh", "^TestRevokedHostKey$"},
		{"an unknown host is accepted", "ssh/hostkey.go", "if k.settings.acceptNew && errors.As", "if errors.As", "./ssh", "^TestUnknownHostKey$"},
		{"the shell sees a character unquoted", "ssh/quote.go", "\"._/-\"", "\"._/-$\"", "./ssh", "^TestQuote"},
	}
}

func doors() []Mutant {
	const pkg = "./internal/kv"
	door, gate := "internal/kv/door.go", "internal/kv/gate.go"
	return []Mutant{
		{"the door asks for no token", door, "if !known || !bearer ||", "if (!known && r.Host == \"\") || !bearer ||", pkg, "^TestDoor(AdmitsOnly|TellsStrangers)"},
		{"refusals at the door differ", door, "\t\t\tw.Header().Set(\"Connection\", \"close\")\n", "\t\t\tw.Header().Set(\"Connection\", \"close\")\n\t\t\tif token != \"\" {\n\t\t\t\tw.Header().Set(\"Reason\", \"bad token\")\n\t\t\t}\n", pkg, "^TestDoorRefusesAllAlike$"},
		{"the door answers under any name", door, "r.Host != d.addr", "r.Host == \"\"", pkg, "^TestDoorTellsStrangersNothing$"},
		{"web pages are let in", door, "r.Header.Get(\"Origin\") != \"\"", "r.Header.Get(\"Origin\") == \"x\"", pkg, "^TestDoorTellsStrangersNothing$"},
		{"requests at the door have no bound", door, "if d.inside.Add(1) > int64", "if d.inside.Add(1) < 0 && 0 < int64", pkg, "^TestDoorBoundsRequests$"},
		{"strangers at the door have no bound", gate, "if len(room) >= size {", "if len(room) >= 1000*size {", pkg, "^TestGate"},
		{"other users push out the job's own", gate, "own: g.own(conn)}", "own: g.own(conn) || true}", pkg, "^TestGate"},
		{"a closed socket is root's", "internal/kv/peer.go", "if inode == 0 {", "if inode == 1<<31 {", pkg, "^TestPeerUID$"},
		{"everybody is the job's own user", gate, "return uid == 0 || uid == uint32(os.Geteuid())", "return uid == 0 || os.Geteuid() >= 0", pkg, "^TestPeerUID"},
		{"a fence counts a rank twice", "internal/kv/gather.go", "if _, twice := got[member]; twice {", "if _, twice := got[member]; twice && g.want < 0 {", pkg, "^TestGather"},
		{"keys without values cost nothing", "internal/kv/store.go", "grown += len(key) + entryCost", "grown += 0", pkg, "^TestStoreIsBounded$"},
		{"waits for keys are kept", "internal/kv/store.go", "w.waiting == 0 && s.waits[key] == w", "w.waiting < 0", pkg, "^TestStoreForgetsWaits$"},
	}
}

func epochs() []Mutant {
	const pkg = "./internal/elastic"
	agent, settle := "internal/agent/elastic.go", "internal/elastic/settle.go"
	return []Mutant{
		{"a rank without state may be rank 0", "internal/elastic/plan.go", "return !c.fresh && c.since > 0", "return c.since >= 0", pkg, "^TestWholeElasticJobs$|^TestRankZero"},
		{"an epoch begins beside a lost host", settle, "\t\tif h.lost {\n\t\t\treturn false", "\t\tif h.lost && h.slots < 0 {\n\t\t\treturn false", pkg, "^TestLostHost|^TestWholeElasticJobs$"},
		{"who never joins is waited for", settle, "age >= d.cfg.Join:", "age >= 1000*d.cfg.Join:", pkg, "^TestSlotsAreStopped|^TestWholeElasticJobs$"},
		{"a word from an old epoch counts", "internal/elastic/driver.go", "&& p.epoch == e.Left {", "&& e.Left > 0 {", pkg, "^TestWordsOfThePast"},
		{"an empty list is believed at once", "internal/elastic/sightings.go", "s.empty < emptyPolls {", "s.empty < 1 {", pkg, "^TestSightings"},
		{"an old epoch's end ends the new one", agent, "case a.Epoch != e.current.Epoch:", "case a.Epoch < 0:", "./internal/agent", "^TestEpochs$"},
		{"an old epoch's fence fills the new one", "internal/agent/relay.go", "if f.Epoch != r.epoch {", "if f.Epoch < 0 {", "./internal/agent", "^TestEpochs$"},
	}
}

func rings() []Mutant {
	const pkg = "./ring/internal/tcp"
	shake := "ring/internal/tcp/handshake.go"
	return []Mutant{
		{"who answers need not prove it", shake, "if !hmac.Equal(frame[helloSize:], mac(s.joinKey, 2, script)) {", "if len(frame) == 0 {", pkg, "^TestStrangersAreNoOracle$"},
		{"who dials need not prove it", shake, "if !hmac.Equal(script[helloSize:], mac(s.dialKey, 1, script[:helloSize])) {", "if len(script) == 0 {", pkg, "^TestStrangersAreNoOracle$"},
		{"a recording will do", shake, "if !hmac.Equal(proof, mac(s.dialKey, 3, script)) {", "if len(proof) == 0 {", pkg, "^TestReplay$|^TestRecording"},
		{"both roles have one key", shake, "derive(\"acceptor\")", "derive(\"dialer\")", pkg, "^TestEveryRole|^TestReflection$"},
		{"an old epoch's key is as good", shake, "role, self.Epoch, self.Job", "role, 0, self.Job", pkg, "^TestEveryRole"},
		{"strangers have no bound", "ring/internal/tcp/lobby.go", "if len(l.strangers) >= maxStrangers {", "if len(l.strangers) >= 1000*maxStrangers {", pkg, "^TestSlowStrangersMakeRoom$"},
		{"a root that is through is missed", "ring/stall.go", "return s.place >= mine.place", "return s.place > mine.place || s.in && s.place == mine.place", "./ring", "^TestR5StallReport$"},
		{"every rank that waits tells of it", "ring/stall.go", "case theirs.stalled && theirs.place == mine.place && rank < self:", "case rank < 0:", "./ring", "^TestR5StallReport$"},
		{"a Comm closes on what it has not sent", "ring/internal/tcp/deliver.go", "if unsent(s.fd) == 0 ||", "if unsent(s.fd) >= 0 ||", pkg, "^TestDeliverPastANote$"},
		{"a note to who has left is an error", "ring/internal/tcp/doubt.go", "case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):", "case errors.Is(err, unix.EXDEV):", pkg, "^TestNoteToARankThatHasLeft$"},
		{"a second rank takes the first's place", "ring/internal/tcp/lobby.go", "if !hungUp(first) {", "if first == nil {", pkg, "^TestDuplicates$"},
	}
}

func libraries() []Mutant {
	const pkg = "./ring/capi"
	request := "ring/capi/request.go"
	return []Mutant{
		{"a fork goes unnoticed", "ring/capi/ring.c", "atomic_store_explicit(&forked, 1, memory_order_relaxed);", "(void)forked;", pkg, "^TestErrors$"},
		{"panics reach C", "ring/capi/failure.go", "if p := recover(); p != nil {", "if p := any(nil); p != nil {", pkg, "^TestErrors$"},
		{"places of requests are not used again", request, "if turn <= turnMask {", "if turn < 1 {", pkg, "^TestCallsLeaveNothing$"},
		{"results are not freed", request, "\t\tr.result.free()\n", "", pkg, "^TestCallsLeaveNothing$"},
		{"a request has no memory of its end", request, "\tif !r.outcome.over {\n", "\tif r.outcome = found; !found.over {\n", pkg, "^TestErrors$"},
	}
}
