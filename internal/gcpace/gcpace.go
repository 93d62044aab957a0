// Package gcpace sets the garbage collector's pace by what the process does: a
// cluster under load trades memory for speed, an idle cluster gives the memory
// back.
//
// Creating pods allocates hundreds of megabytes a second, and at Go's default
// pace a fifth of the CPU goes to the collector; idle, nothing is allocated and
// a heap that once was large would stay with the process. Two paces and the
// allocation rate are enough; there is no model of the heap here.
//
// It is for the process of `rehearse up` and for nothing else: the pace belongs to
// a whole process, so no library may set it. GOGC and GOMEMLIMIT in the
// environment win. Floor: internal, imports only the standard library.
package gcpace

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// The paces (GOGC, in percent), what divides them, and how long it must be quiet
// before the busy one is left. While busy, the heap may grow by headroom before
// it is collected, but never to more than busyPercent nor less than restPercent
// of what is live: a small heap gains a third in speed, a large one must not
// take the machine's memory.
const (
	busyPercent   = 300
	restPercent   = 100
	headroom      = 3 << 29   // bytes (1.5 GiB)
	stepPercent   = 25        // a smaller change is not worth stopping the world for
	busyBytes     = 128 << 20 // allocated in a period; a thousand nodes' leases are a third of it
	period        = time.Second
	quietPeriods  = 10
	workPeriods   = 5   // so many busy periods leave memory that is worth giving back
	limitFraction = 0.7 // of the machine's memory: beyond it the collector works as hard as it must
)

// pace is the state of the decision: how many quiet periods have passed since
// the last busy one.
type pace struct {
	busy  bool
	quiet int
	work  int // busy periods since memory was last given back
}

// next decides after a period in which so many bytes were allocated. It returns
// the new state and whether the pace changes with it.
func (p pace) next(allocated uint64) (after pace, changed bool) {
	switch {
	case allocated >= busyBytes:
		return pace{busy: true, work: p.work + 1}, !p.busy
	case !p.busy:
		return p, false
	case p.quiet+1 < quietPeriods:
		return pace{busy: true, quiet: p.quiet + 1, work: p.work}, false
	default:
		return pace{work: p.work}, true
	}
}

// giveBack reports whether memory should go back to the system now: that collects
// the whole heap, seconds of CPU for 100,000 pods, so a single burst is not
// reason enough.
func (p pace) giveBack() bool { return !p.busy && p.work >= workPeriods }

// percent is the pace for a heap of which so many bytes are live.
func (p pace) percent(live uint64) int {
	if !p.busy {
		return restPercent
	}
	return int(min(max(headroom*100/max(live, 1), restPercent), busyPercent))
}

// Run keeps the pace until ctx ends. A process starts busy.
func Run(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") == "" {
		if total := machineMemory(); total > 0 {
			debug.SetMemoryLimit(int64(float64(total) * limitFraction))
		}
	}
	if os.Getenv("GOGC") != "" {
		return
	}
	p, percent := pace{busy: true, work: workPeriods}, busyPercent // the start leaves much behind
	debug.SetGCPercent(percent)
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	last := sample[0].Value.Uint64()
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		now := sample[0].Value.Uint64()
		var changed bool
		p, changed = p.next(now - last)
		last = now
		want := p.percent(sample[1].Value.Uint64())
		if !changed && max(want-percent, percent-want) < stepPercent {
			continue
		}
		percent = want
		debug.SetGCPercent(percent)
		if p.giveBack() {
			p.work = 0
			debug.FreeOSMemory()
		}
	}
}

// machineMemory is the memory of the machine in bytes, 0 where it is unknown.
func machineMemory() uint64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}
