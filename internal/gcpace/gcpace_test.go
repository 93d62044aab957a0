package gcpace

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestPace(t *testing.T) {
	const busy, idle = busyBytes, busyBytes - 1
	p := pace{}
	step := func(allocated uint64, wantBusy, wantChanged bool) {
		t.Helper()
		var changed bool
		p, changed = p.next(allocated)
		if p.busy != wantBusy || changed != wantChanged {
			t.Fatalf("after %d bytes: busy %v, changed %v; want %v, %v", allocated, p.busy, changed, wantBusy, wantChanged)
		}
	}
	step(idle, false, false)
	step(busy, true, true)
	step(busy, true, false)
	for range quietPeriods - 1 {
		step(idle, true, false)
	}
	step(busy, true, false) // a burst restarts the count of quiet periods
	for range quietPeriods - 1 {
		step(idle, true, false)
	}
	step(idle, false, true)
	step(idle, false, false)
	step(busy, true, true)
}

// TestGiveBack checks that bursts shorter than workPeriods add up, however many seconds are between
// them, and that memory is returned once, when the process is quiet.
func TestGiveBack(t *testing.T) {
	p := pace{}
	burst := func() {
		p, _ = p.next(busyBytes)
		for range quietPeriods {
			if p.giveBack() {
				t.Fatal("given back before it was quiet")
			}
			p, _ = p.next(0)
		}
	}
	for range workPeriods - 1 {
		burst()
		if p.giveBack() {
			t.Fatalf("given back after %d busy periods", p.work)
		}
	}
	burst()
	if p.busy || !p.giveBack() {
		t.Fatalf("not given back after %d busy periods", p.work)
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		busy bool
		live uint64
		want int
	}{
		{false, 0, 100},
		{false, 5 << 28, 100},
		{false, 2 << 30, 62},
		{false, 10 << 30, 50},
		{true, 0, 300},
		{true, 100 << 20, 300},
		{true, 448 << 20, 300},
		{true, 512 << 20, 275},
		{true, 768 << 20, 175},
		{true, 1536 << 20, 75},
		{true, 2048 << 20, 50},
		{true, 10 << 30, 50},
	} {
		if got := (pace{busy: c.busy}).percent(c.live); got != c.want {
			t.Errorf("busy %v with %d MB live: %d, want %d", c.busy, c.live>>20, got, c.want)
		}
	}
}

// TestMemoryLimit: the collector has as much room as the live objects take, unless the machine has less memory.
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		live       uint64
		most, want int64
	}{
		{0, math.MaxInt64, 7 << 29},
		{3 << 29, math.MaxInt64, 7 << 29},
		{2 << 30, math.MaxInt64, 9 << 29},
		{0, 1 << 30, 1 << 30},
		{10 << 30, 16 << 30, 16 << 30},
	} {
		if got := memoryLimit(c.live, c.most); got != c.want {
			t.Errorf("%d MB live of at most %d MB: %d, want %d", c.live>>20, c.most>>20, got, c.want)
		}
	}
}

// TestWithinLimits: the limit of a container counts if it is less than the memory of the machine.
func TestWithinLimits(t *testing.T) {
	const machine = 8 << 30
	file := filepath.Join(t.TempDir(), "memory.max")
	for text, want := range map[string]uint64{
		"max\n": machine, "67108864\n": 64 << 20, "9223372036854771712\n": machine, "0\n": machine, "": machine, "-1": machine,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := withinLimits(machine, []string{file + ".missing", file}); got != want {
			t.Errorf("with %q: %d bytes, want %d", text, got, want)
		}
	}
}

func TestMachineMemory(t *testing.T) {
	if m := machineMemory(); m != 0 && m < 64<<20 {
		t.Errorf("machine memory %d bytes", m)
	}
}
