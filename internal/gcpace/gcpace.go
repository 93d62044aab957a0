// Package gcpace adapts the garbage collector's pace (GOGC) and the memory limit (GOMEMLIMIT) to the load of the process:
// a cluster under load uses memory to save CPU, and a cluster that becomes idle returns memory to the system.
//
// Creating pods allocates hundreds of megabytes a second, and at Go's default pace the collector
// takes a fifth of the CPU. An idle process allocates nothing, and would keep a heap that once was
// large. The package chooses between two paces by the allocation rate; it has no model of the heap.
//
// Only the process of `rehearse up` uses it: both apply to a whole process, so a library must
// not set them. GOGC and GOMEMLIMIT in the environment take precedence. Floor: internal, imports only
// the standard library.
package gcpace

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// The paces (GOGC, in percent), the allocation rate that separates them, and how long a process
// must be quiet before it counts as idle. While the process is busy, the heap may grow by busyRoom less
// a quarter of what is live before it is collected: a small heap that grows by much makes the process a third faster, and a large one must
// not take the machine's memory. The memory of an idle cluster follows the largest heap under load, because objects that live long are
// created between others that die soon. An idle process creates few such objects, so its heap may grow by idleRoom
// at any size: with many live objects, by more than under load. Go collects at least every two minutes, in which an idle cluster of 1,000 nodes allocates about 1.2 GiB, so more room would
// only be used by bursts.
const (
	busyPercent  = 300
	idlePercent  = 100
	leastPercent = 50
	busyRoom     = 3 << 29   // bytes (1.5 GiB)
	idleRoom     = 5 << 28   // bytes (1.25 GiB)
	stepPercent  = 25        // smaller changes do not justify the pause that setting GOGC causes
	busyBytes    = 128 << 20 // allocated in a period; an idle cluster of a thousand nodes allocates a twelfth of it
	period       = time.Second
	quietPeriods = 10
	workPeriods  = 5 // the number of busy periods after which memory is returned
)

// The memory limit (GOMEMLIMIT) counts what GOGC does not: the free space between live objects, which grows when objects that live long are created
// between others that die soon. The limit is twice what is live and limitRoom, so that the collector has as much room as the live objects take, unless the machine
// has less memory; it is leastLimit for a smaller heap, and at most limitFraction of the memory of the machine or container. Go does not guarantee it, and it does not count mapped files, such as the database of an embedded etcd.
const (
	leastLimit    = 7 << 29   // bytes (3.5 GiB): with the pages of the binary, less than 4 GB
	limitRoom     = 1 << 29   // bytes (0.5 GiB)
	limitStep     = 128 << 20 // bytes; smaller changes do not justify the pause that setting the limit causes
	limitFraction = 0.7
)

// pace is the state of the decision. quiet counts the quiet periods since the last busy one.
type pace struct {
	busy  bool
	quiet int
	work  int // busy periods since memory was last returned
}

// next returns the state after a period in which this many bytes were allocated, and whether the
// pace changes.
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

// giveBack reports whether memory should be returned to the system now. That collects the whole
// heap, seconds of CPU for 100,000 pods, so a single burst does not justify it.
func (p pace) giveBack() bool { return !p.busy && p.work >= workPeriods }

// percent returns the pace (GOGC) for a heap with this many live bytes.
func (p pace) percent(live uint64) int {
	room, most := uint64(idleRoom), idlePercent
	if p.busy {
		room, most = busyRoom-min(live/4, busyRoom), busyPercent
	}
	return min(max(int(room*100/max(live, 1)), leastPercent), most)
}

// memoryLimit returns the memory limit of a process with this many live bytes, if it should use at most this many.
func memoryLimit(live uint64, most int64) int64 {
	return min(int64(max(leastLimit, 2*live+limitRoom)), most)
}

// Run adapts the pace and the memory limit until ctx ends. It starts with the busy pace. If the environment sets GOGC, the memory limit
// stays at limitFraction of the memory of the machine or container.
func Run(ctx context.Context) {
	most, ownLimit := int64(math.MaxInt64), os.Getenv("GOMEMLIMIT") == ""
	if total := withinLimits(machineMemory(), groupLimits); total > 0 {
		most = int64(float64(total) * limitFraction)
	}
	if ownLimit {
		debug.SetMemoryLimit(most)
	}
	if os.Getenv("GOGC") != "" {
		return
	}
	p, percent := pace{busy: true, work: workPeriods}, busyPercent // starting the cluster leaves much garbage
	debug.SetGCPercent(percent)
	limit := most
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
		now, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
		if want := memoryLimit(live, most); ownLimit && max(want-limit, limit-want) >= limitStep {
			limit = want
			debug.SetMemoryLimit(limit)
		}
		var changed bool
		p, changed = p.next(now - last)
		last = now
		want := p.percent(live)
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

// groupLimits are the files with the memory limit of a container: of version 2 and version 1 of control groups. A container sees its own group there.
var groupLimits = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// withinLimits returns the least of the available bytes and of the limits in the files. A file that is missing or has no number is no limit.
func withinLimits(available uint64, files []string) uint64 {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// A group without a limit has "max", or in version 1 a number near 2^63.
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil && limit > 0 && limit < available {
			available = limit
		}
	}
	return available
}

// machineMemory returns the memory of the machine in bytes; 0 if it is unknown.
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
