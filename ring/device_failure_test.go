//go:build cgo && linux

package ring_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
	"github.com/gorun/gorun/ring/internal/boot"
	"github.com/gorun/gorun/ring/internal/stall"
)

// hear makes every rank but one that is absent, if it is not negative, allreduce until that fails,
// and wants an error about rank, or about any if that is negative, within a time.
func hear(t *testing.T, all []*ring.Device, rank int, within time.Duration, says string, absent int) {
	t.Helper()
	named := func(err error) error {
		if peer := new(ring.PeerError); rank >= 0 || !errors.As(err, &peer) {
			return wantPeer(err, rank)
		}
		return nil
	}
	start := time.Now()
	ringtest.All(t, len(all), func(me int) error {
		if me == absent {
			return nil
		}
		d := all[me]
		at, err := d.Alloc(4096)
		if err != nil {
			return err
		}
		defer d.Free(at)
		for err == nil {
			if err = d.AllReduce(ctx, 0, at, at, 1024, ring.Float32, ring.Sum); err == nil {
				err = d.Wait(ctx)
			}
		}
		if err := named(err); err != nil {
			return err
		}
		if !strings.Contains(err.Error(), says) {
			return fmt.Errorf("%w; want %q", err, says)
		}
		if took := time.Since(start); took > within {
			return fmt.Errorf("it knew after %v", took)
		}
		again := d.AllReduce(ctx, 0, at, at, 1024, ring.Float32, ring.Sum)
		if err := errors.Join(named(again), named(d.Err())); err != nil {
			return fmt.Errorf("later: %w", err)
		}
		synced, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := named(d.Sync(synced, 0)); err != nil {
			return fmt.Errorf("its stream: %w", err)
		}
		return nil
	})
}

// A launch that fails, at once or while it runs, ends the calls of all ranks: NCCL itself tells
// them nothing. A rank that does not launch what the others have is the cause when the device has a
// timeout, also in the first launch, in which NCCL connects the ranks. When all have launched and
// nothing comes of it there is nobody to name, and the first whose time is up is the cause.
func TestDeviceFaultsReachAllRanks(t *testing.T) {
	must.HaveTime(t)
	const failed = "system error: the stand-in was told to fail"
	const lost = "remote error: the stand-in has lost another rank"
	const none = -1
	for name, tt := range map[string]struct {
		harm               string // NAME=VALUE …
		size, rank, absent int
		timeout            time.Duration
		says, more         string
	}{
		"a launch":                  {"STANDIN_ERROR=2:3", 4, 2, none, 0, failed, ""},
		"a launch in progress":      {"STANDIN_ERROR=2:3 STANDIN_POLLS=*:5", 4, 2, none, 0, failed, ""},
		"a connection":              {"STANDIN_ASYNC=2:3", 4, 2, none, 0, lost, ""},
		"a connection, in progress": {"STANDIN_ASYNC=2:3 STANDIN_POLLS=*:5", 4, 2, none, 0, lost, ""},
		"a rank does not launch": {"", 3, 1, 1, time.Second,
			"it has not launched call 1 in 1s", "RING_STALL="},
		"a rank does not launch, without reports": {"", 3, 1, 1, time.Second,
			"it has not launched call 1 in 1s", "RING_STALL=0"},
		"a rank does not connect": {"STANDIN_POLLS=0:2000000000", 2, 1, 1, 500 * time.Millisecond,
			"it has not launched call 1 in 500ms", ""},
		"nothing comes of it": {"STANDIN_HANG=*:3", 2, none, none, 500 * time.Millisecond,
			"call 3 has not come to its end in 500ms, and all ranks have launched it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for harm := range strings.FieldsSeq(tt.harm) {
				name, value, _ := strings.Cut(harm, "=")
				t.Setenv(name, value)
			}
			limit := 3 * time.Second // the goal is one second
			if tt.timeout > 0 {
				limit = 8 * time.Second
			}
			j := newDeviceJob(t, tt.size)
			if tt.more != "" {
				j.more = []string{tt.more}
			}
			hear(t, devices(t, j.comms(t), ring.WithDeviceTimeout(tt.timeout)), tt.rank, limit, tt.says, tt.absent)
		})
	}
}

// The rank that does not launch is named, though it says in the store that no other one does.
func TestDeviceNamesNoHonestRank(t *testing.T) {
	must.HaveTime(t)
	j := newDeviceJob(t, 3)
	all := devices(t, j.comms(t), ring.WithDeviceTimeout(time.Second))
	l := lies(t, j.Job, 2, string(stall.Position{}.Encode()))
	hear(t, all, 2, time.Minute, "it has not launched call 1 in 1s", 2)
	<-l.told
}

// A rank that calls the start of NCCL off in the name of another is not believed. One that does so
// in its own, and then does not say why, is named, and the next start is not called off.
func TestDeviceBesideFalseAlarms(t *testing.T) {
	must.HaveTime(t)
	const last = 2
	const first = "device/1.0/failed"
	const second = "device/2.0/failed"
	j := newDeviceJob(t, 3)
	comms := j.comms(t)
	begin := func() error {
		return ringtest.Each(j.Size, func(rank int) error {
			d, err := ring.NewDevice(ctx, comms[rank], rank)
			if err != nil {
				return err
			}
			at, err := d.Alloc(8)
			if err == nil {
				err = d.AllReduce(ctx, 0, at, at, 1, ring.Float32, ring.Sum)
			}
			return errors.Join(err, d.Wait(ctx), d.Free(at), d.Close())
		})
	}
	says(t, j.Job, last, "ring/0/"+first, "1")
	check.OK(t, begin(), "it speaks for another")
	says(t, j.Job, last, boot.RankKey(0, last, "ring/"+second), "")
	says(t, j.Job, last, "ring/0/"+second, "2")
	t.Setenv("STANDIN_INIT_HANG", "*:1")
	check.Error(begin()).Says(t, "rank 2 on "+ringtest.Host+": it has called the start of NCCL off, and does not say")
	t.Setenv("STANDIN_INIT_HANG", "")
	check.OK(t, begin(), "after it")
	check.Equal(t, len(j.Losses()), 0, "ranks are named")
}

// A rank that does not launch what the others have is named in a report after RING_STALL.
func TestDeviceReportsTheRankThatDoesNotLaunch(t *testing.T) {
	must.HaveTime(t)
	reports := make(chan string, 8)
	j := newDeviceJob(t, 3)
	all := devices(t, j.comms(t, ring.WithStallReport(200*time.Millisecond, func(text string) { reports <- text })))
	ringtest.All(t, 3, func(rank int) error {
		at, err := all[rank].Alloc(8)
		for call := 0; err == nil && call < 2 && (call == 0 || rank != 1); call++ {
			err = all[rank].AllReduce(ctx, 0, at, at, 1, ring.Float32, ring.Sum)
		}
		return err
	})
	select {
	case text := <-reports:
		check.That(t, strings.Contains(text, "allreduce, call 2 of a part of 3 ranks, has waited 200ms for rank 1 on "+
			ringtest.Host), "it says %q", text)
	case <-time.After(10 * time.Second):
		t.Error("nobody was told")
	}
	check.OK(t, all[0].Err(), "a report has ended the device")
	at := memory(t, all[1], 8)
	check.OK(t, errors.Join(all[1].AllReduce(ctx, 0, at, at, 1, ring.Float32, ring.Sum), all[1].Wait(ctx),
		all[0].Wait(ctx), all[2].Wait(ctx)), "when it came after all")
	time.Sleep(500 * time.Millisecond)
	select {
	case text := <-reports:
		t.Errorf("nobody waits, and it says %q", text)
	default:
	}
}

// A program that waits for nothing launches on when a rank fails. NCCL and the driver have room for
// so many launches, and one that waits there for more could not be ended.
func TestDeviceLaunchesOnWithoutWaiting(t *testing.T) {
	must.HaveTime(t)
	t.Setenv("STANDIN_ROOM", "1000")
	t.Setenv("STANDIN_ERROR", "1:3")
	all := devices(t, newDeviceJob(t, 2).comms(t))
	var told [2]time.Time
	err := ringtest.Each(2, func(rank int) error {
		at, err := all[rank].Alloc(8)
		for i := 1; err == nil; i++ {
			if rank == 1 && i == 3 {
				time.Sleep(time.Second) // the other one launches what there is room for
			}
			err = all[rank].AllReduce(ctx, 0, at, at, 1, ring.Float32, ring.Sum)
		}
		told[rank] = time.Now()
		return wantPeer(err, 1)
	})
	if after := told[0].Sub(told[1]); err != nil || after > 4*time.Second { // the goal is one second
		t.Errorf("%v; it was told %v after the one that failed", err, after)
	}
}

// A Wait that is given up leaves the device as it was; a Close ends what hangs, also where nobody
// else has failed.
func TestDeviceCloseInTheMiddle(t *testing.T) {
	must.HaveTime(t)
	j := newDeviceJob(t, 2)
	all := devices(t, j.comms(t))
	at := memory(t, all[0], 8)
	must.OK(t, all[0].AllReduce(ctx, 0, at, at, 1, ring.Float32, ring.Sum))
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err := all[0].Wait(short)
	check.That(t, errors.Is(err, context.DeadlineExceeded) && all[0].Err() == nil, "%v, then %v", err, all[0].Err())
	start := time.Now()
	check.OK(t, all[0].Close())
	took := time.Since(start)
	check.That(t, took >= 3*time.Second && took <= 15*time.Second, "it took %v, and has 5s for what was launched", took)
	check.Error(all[0].AllReduce(ctx, 0, at, at, 1, ring.Float32, ring.Sum)).Is(t, ring.ErrClosed, "after the end")
	check.OK(t, all[0].Close(), "closed again")
	all[0] = nil
}

// Libraries that are missing, or lack something, are one clear error on all ranks, or send the data
// through host memory. With --encrypt, GPU data crosses hosts through ring's encrypted connections,
// and never through NCCL.
func TestDevicesWithoutNCCL(t *testing.T) {
	must.HaveTime(t)
	half := t.TempDir()
	standins(t)
	must.OK(t, ringtest.Standins("internal/nccl/testdata", half, "-DSTANDIN_HALF"))
	halfCUDA := "RING_CUDA_LIB=" + filepath.Join(half, "libcuda.so.1")
	halfNCCL := "RING_NCCL_LIB=" + filepath.Join(half, "libnccl.so.2")
	rank1 := "rank 1 on " + ringtest.Host + ": "
	unencrypted := "rank 0 on " + ringtest.Host + "0: NCCL would send data between hosts unencrypted"
	for name, tt := range map[string]struct {
		hosts    []int
		all, own []string // environment of all ranks, and of rank 1
		fails    string
		noGPU    bool
		host     string // host memory is used, for this; "" is NCCL
	}{
		"no driver": {own: []string{"RING_CUDA_LIB=/nowhere/libcuda.so.1"},
			fails: rank1 + "no NVIDIA driver: load /nowhere/libcuda.so.1: ", noGPU: true},
		"half a driver": {own: []string{halfCUDA},
			fails: "the NVIDIA driver " + half + "/libcuda.so.1 has no cuEventQuery: it is too old", noGPU: true},
		"no NCCL": {own: []string{"RING_NCCL_LIB=/nowhere/libnccl.so.2"}, host: rank1 + "load /nowhere/libnccl.so.2: "},
		"half an NCCL": {own: []string{halfNCCL},
			host: rank1 + "NCCL 2.27.3 (" + half + "/libnccl.so.2) has no ncclGroupEnd: another version is needed"},
		"it must be": {own: []string{halfNCCL, "RING_DEVICE=nccl"},
			fails: "RING_DEVICE=nccl, and " + rank1 + "NCCL 2.27.3 ("},
		"host is wanted": {own: []string{"RING_DEVICE=host"}, host: rank1 + "RING_DEVICE=host"},
		"a wrong word": {own: []string{"RING_DEVICE=gpu"}, fails: `RING_DEVICE="gpu": it must be auto, host or nccl`,
			noGPU: true},
		"encrypted, two hosts": {hosts: []int{1, 1}, all: []string{"GORUN_ENCRYPT=1"}, host: unencrypted},
		"encrypted, one host":  {hosts: []int{2}, all: []string{"GORUN_ENCRYPT=1"}},
		"encrypted, two hosts, with NCCL": {hosts: []int{1, 1}, all: []string{"RING_DEVICE=nccl", "GORUN_ENCRYPT=1"},
			fails: "RING_DEVICE=nccl, and " + unencrypted},
	} {
		t.Run(name, func(t *testing.T) {
			j := newDeviceJob(t, 2, tt.all...)
			j.own[1] = tt.own
			if tt.hosts != nil {
				j.Hosts = tt.hosts
				j.Transport = "auto"
			}
			comms := j.comms(t)
			all := make([]*ring.Device, 2)
			defer func() { closeDevices(t, all) }()
			ringtest.All(t, 2, func(rank int) error {
				d, err := ring.NewDevice(ctx, comms[rank], rank)
				all[rank] = d
				switch {
				case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails) ||
					errors.Is(err, ring.ErrNoGPU) != tt.noGPU):
					return fmt.Errorf("rank %d: %w, want %q", rank, err, tt.fails)
				case tt.fails != "":
					return ring.Barrier(ctx, comms[rank]) // as if nothing had been
				case err != nil || d.Native() != (tt.host == "") ||
					tt.host != "" && !strings.Contains(d.String(), "host memory, for "+tt.host):
					return fmt.Errorf("rank %d: %v, %w, want %q", rank, d, err, tt.host)
				}
				return deviceValues(d, rank, 2)
			})
		})
	}
}

// NewDevice ends on all ranks with the cause where NCCL does not begin on one, where a rank does
// not come to it, and where NCCL never comes up: that keeps no rank for longer than it wants to
// wait. The Comm works on.
func TestDeviceInitFails(t *testing.T) {
	for name, tt := range map[string]struct {
		harm, value string
		size, come  int
		says        []string
	}{
		"an error": {"STANDIN_INIT_ERROR", "2:1", 3, 3, []string{"rank 2 on " + ringtest.Host + ": NCCL 2.27.3 (",
			"init: invalid usage: Duplicate GPU detected, says the stand-in; give each rank a GPU of its own"}},
		"a rank is missing": {"STANDIN_INIT_ERROR", "", 3, 2, []string{"rank 2 on " + ringtest.Host +
			" has not come to it"}},
		"a hang": {"STANDIN_INIT_HANG", "1:1", 2, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tt.harm, tt.value)
			comms := newDeviceJob(t, tt.size).comms(t)
			patience := 10 * time.Second
			if len(tt.says) < 2 {
				patience = 500 * time.Millisecond
			}
			short, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			start := time.Now()
			err := ringtest.Each(tt.come, func(rank int) error {
				_, err := ring.NewDevice(short, comms[rank], rank)
				if err == nil {
					return errors.New("it has a device")
				}
				for _, want := range tt.says {
					if !strings.Contains(err.Error(), want) {
						return fmt.Errorf("%w, want %q", err, want)
					}
				}
				if len(tt.says) < 2 {
					return nil
				}
				return ring.Barrier(ctx, comms[rank])
			})
			took := time.Since(start)
			check.That(t, err == nil && took <= 5*time.Second, "%v after %v", err, took)
		})
	}
}

// A launch allocates nothing after an equal one was made.
func TestDeviceAllocatesNothing(t *testing.T) {
	for _, caller := range deviceWays() {
		t.Run(caller.name, func(t *testing.T) {
			d := devices(t, newDeviceJob(t, 1, caller.env...).comms(t))[0]
			at := memory(t, d, 4096)
			b := ring.DeviceBuffer(at, 100)
			two := []ring.DeviceCall{{Collective: collective(ring.KindAllReduce, ring.Float32, ring.Sum, b, b),
				Scale: 0.5}, {}}
			two[1] = two[0]
			n := testing.AllocsPerRun(200, func() {
				must.OK(t, errors.Join(d.AllReduce(ctx, 0, at, at, 1000, ring.Float32, ring.Avg), d.Do(ctx, 0, two...),
					d.Wait(ctx)))
			})
			if n != 0 && !raceEnabled { // the race detector allocates
				t.Errorf("%v allocations in three calls", n)
			}
		})
	}
}
