package gcpace

import "testing"

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
	step(busy, true, false) // a burst begins the quiet anew
	for range quietPeriods - 1 {
		step(idle, true, false)
	}
	step(idle, false, true)
	step(idle, false, false)
	step(busy, true, true)
}

func TestPercent(t *testing.T) {
	if (pace{busy: true}).percent() <= (pace{}).percent() {
		t.Error("under load the collector must run less often than at rest")
	}
}

func TestMachineMemory(t *testing.T) {
	if m := machineMemory(); m != 0 && m < 64<<20 {
		t.Errorf("machine memory %d bytes", m)
	}
}
