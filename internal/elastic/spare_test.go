package elastic

import (
	"errors"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestSpareTakesThePlaceOfARank(t *testing.T) {
	p := begun(t, Config{NP: 2, Max: 2, Spares: 1}, "a:1,b:2")
	p.ready("b1").expect("nothing")
	p.exit(1, "a0").expect("interrupt")
	p.park("b0").expect("epoch 3: b0 b1") // at once, without a new process
	p.join().expect("start a0 as 2/3")    // its slot has the spare now
	p.ready("a0").exit(1, "b1").park("b0").join().expect("interrupt; epoch 5: b0 a0; start b1 as 1/3")
	p.exit(0, "a0", "b0").expect("stop b1")
	p.exit(143, "b1").expect("end 0")
}

// A member that is slow leaves at its next commit, if a spare is ready, which takes its place. Its
// host rests before it gets the next spare.
func TestSlowRankIsReplacedByASpare(t *testing.T) {
	p := newPlay(t, Config{NP: 2, Max: 2, Spares: 1}, "a:1,b:1,c:1")
	p.ready()
	p.join()
	p.expect("start a0 as 0/2; start b0 as 1/2; epoch 1: a0 b0; start c0 as 2/3")
	slow := Slow{Process: p.live[slot("b0")], Text: "is slow"}
	p.step(slow)
	p.expect("nothing") // no spare is ready
	p.ready("c0")
	p.expect("nothing")
	p.step(slow)
	p.expect("interrupt")
	p.step(slow)
	p.park("b0")
	p.expect("nothing")
	p.park("a0")
	p.expect("stop b0; epoch 3: a0 c0")
	p.exit(143, "b0")
	p.join()
	p.expect("nothing") // b rests
	p.wait(10 * time.Second)
	p.expect("start b0 as 2/3")
	p.step(Slow{Process: p.live[slot("b0")], Text: "is slow"}) // a spare is none
	p.expect("nothing")
}

func TestSparesComeAndGo(t *testing.T) {
	p := newPlay(t, Config{NP: 2, Max: 2, Spares: 2}, "a:2,b:1")
	p.expect("start a0 as 0/2; start a1 as 1/2")
	p.ready().join().expect("epoch 1: a0 a1; start b0 as 2/3")
	p.exit(1, "b0").expect("start b0 as 2/3") // its failure disturbs no rank
	p.hosts("a:2,b:2").expect("start b1 as 2/3")
	p.ready("b1").hosts("a:2,b:1").expect("stop b1")
	p.exit(143, "b1").expect("nothing")
}

// A rank that fails before the spare is ready is replaced in its slot; a smaller epoch takes the
// spare when it is.
func TestSpareThatIsNotReadyYet(t *testing.T) {
	p := begun(t, Config{
		NP:     2,
		Min:    1,
		Max:    2,
		Spares: 1,
	}, "a:1,b:2")
	p.exit(1, "a0").park("b0").join("b0").expect("interrupt; epoch 3: b0; start a0 as 1/2")
	p.ready("b1").ready("a0").expect("interrupt")
	p.park("b0").expect("epoch 4: b0 a0")
}

// A spare that ends, or whose host is lost, while ranks finish is no failure of the job.
func TestSpareIsLostWhileRanksFinish(t *testing.T) {
	for name, lose := range map[string]func(p *play){
		"its host is lost":       func(p *play) { p.step(HostLost{"b", errors.New("no answer")}) },
		"it fails":               func(p *play) { p.exit(1, "b0") },
		"it ends before it runs": func(p *play) { p.exit(0, "b0") },
		"it does not start": func(p *play) {
			p.step(StartFailed{Process: p.live[slot("b0")], Code: CodeNoRank, Err: errors.New("no answer")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := begun(t, Config{NP: 2, Max: 2, Spares: 1}, "a:2,b:1")
			p.exit(0, "a0")
			lose(p)
			p.exit(0, "a1").step(HostFenced{"b"})
			check.That(t, p.end != nil && p.end.Code == 0, "the job ends with %+v", p.end)
		})
	}
}
