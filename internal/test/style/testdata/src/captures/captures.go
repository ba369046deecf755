package captures

import (
	"context"
	"sync"
	"time"
)

var shared int

func use(...any) {}

func definition(ctx context.Context) {
	go func() { use(ctx) }()
	ctx, cancel := context.WithCancel(ctx) // want "ctx is assigned after the goroutine of line 14 has captured it"
	defer cancel()
	use(ctx)
}

func passedOn(ctx context.Context, run func(func())) {
	go run(func() { use(ctx) })
	ctx = context.Background() // want "ctx is assigned after the goroutine of line 21"
	use(ctx)
}

func group(group *sync.WaitGroup) (n int) {
	defer group.Wait()
	group.Go(func() { use(n) })
	n++ // want "n is assigned after the goroutine of line 28"
	return n
}

func timer() {
	late := false
	time.AfterFunc(time.Second, func() { use(late) })
	late = true // want "late is assigned after the goroutine of line 35"
}

func loop(all []int) {
	last := 0
	for _, n := range all {
		last = n // want "last is assigned after the goroutine of line 43"
		go func() { use(last) }()
	}
}

func inner(x int, done chan bool) {
	go func() { use(x) }()
	go func() { <-done }()
	x = 2 // want "x is assigned after the goroutine of line 48"
	use(x)
}

func ranged(all []int, n int) {
	go func() { use(n) }()
	for n = range all { // want "n is assigned after the goroutine of line 55"
		use(n)
	}
}

// What follows is safe.

func first(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { use(ctx) }()
}

func shadow(ctx context.Context) {
	go func() { use(ctx) }()
	if ctx, cancel := context.WithCancel(ctx); ctx != nil {
		cancel()
	}
}

func argument(n int) {
	go func(n int) { use(n) }(n)
	n = 2
	use(n)
}

func waited(group *sync.WaitGroup, done chan bool, mu *sync.Mutex) {
	a := 1
	group.Go(func() { a = 2 })
	group.Wait()
	a = 3
	go func() { a = 4; done <- true }()
	<-done
	a = 5
	go func() { mu.Lock(); defer mu.Unlock(); a = 6 }()
	mu.Lock()
	a = 7
	mu.Unlock()
	use(a)
}

func turns(all []int) {
	for _, n := range all {
		own := n
		go func() { own++; use(n, own) }()
	}
}

func sort(less func(func() bool)) {
	n := 1
	less(func() bool { return n > 0 })
	n = 2
	use(n)
}
