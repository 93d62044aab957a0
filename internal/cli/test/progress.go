package test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// reportInterval is the time between lines where stderr is not a terminal.
const reportInterval = 30 * time.Second

// searchProgress shows the progress of a search on stderr: on a terminal one line that changes after each run,
// elsewhere one line every 30 s.
type searchProgress struct {
	line  *console.Progress
	s     *scenario.Scenario
	began time.Time
	now   func() time.Time
	stop  func()

	mu     sync.Mutex
	status searchStatus
}

// searchStatus is how far a search is.
type searchStatus struct {
	name string
	// runs of maxRuns are finished.
	runs, maxRuns int
	// tried of single faults were tried alone.
	tried, single int
	// failing is the number of the run that violated an invariant, while the search repeats and shrinks it; 0: none. repeats is how often it has.
	failing, repeats int
	elapsed, left    time.Duration
}

// text describes the status in one line.
func (s searchStatus) text() string {
	if s.runs == 0 {
		return fmt.Sprintf("%s: the first run, without faults, %s elapsed", s.name, s.elapsed)
	}
	if s.failing > 0 {
		return fmt.Sprintf("%s: run %s violates an invariant; repeating and shrinking it, %s so far, %s elapsed",
			s.name, sim.Grouped(s.failing), console.Count(s.repeats, "run"), s.elapsed)
	}
	return fmt.Sprintf("%s: %s of %s runs, %s of %s single faults, %s elapsed, %s left at most",
		s.name, sim.Grouped(s.runs), sim.Grouped(s.maxRuns), sim.Grouped(s.tried), sim.Grouped(s.single), s.elapsed, s.left)
}

// startProgress starts to show the progress of a search, until clear is called.
func (a *app) startProgress(s *scenario.Scenario) *searchProgress {
	p := &searchProgress{line: a.NewProgress(), s: s, began: a.Now(), now: a.Now, stop: func() {}, status: searchStatus{name: s.Name, maxRuns: s.Runs}}
	p.line.Show("%s: the first run, without faults", s.Name)
	if !p.line.Enabled() {
		p.stop = every(reportInterval, func() { a.Say("%s", p.current().text()) })
	}
	return p
}

// every calls do after each interval, until the returned function is called. That function waits for the last
// call.
func every(interval time.Duration, do func()) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// clear erases the line and ends the output.
func (p *searchProgress) clear() {
	p.stop()
	p.line.Clear()
}

// ran is called after each run.
func (p *searchProgress) ran(so *sim.Result, last *sim.Outcome) {
	p.mu.Lock()
	p.status.runs, p.status.tried, p.status.single = so.Runs, so.Systematic, so.SystematicTotal
	p.mu.Unlock()
	text := p.current().text()
	if len(last.Run.Faults) > 0 && last.Run.Failure == nil {
		text += ": " + strings.Join(last.Run.Faults, "; ")
	}
	p.line.Show("%s", text)
}

// repeated is called while the search repeats the failure of a run; with 0 when it continues.
func (p *searchProgress) repeated(run, repeats int) {
	p.mu.Lock()
	p.status.failing, p.status.repeats = run, repeats
	p.mu.Unlock()
	p.line.Show("%s", p.current().text())
}

// current returns the status with the present times.
func (p *searchProgress) current() searchStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status, elapsed := p.status, p.now().Sub(p.began)
	status.elapsed = elapsed.Round(time.Second)
	status.left = remaining(elapsed, p.s.Budget, status.runs, p.s.Runs)
	return status
}

// remaining is the maximum remaining duration of a search: until its budget ends, or until all runs are done
// at the present speed.
func remaining(elapsed, budget time.Duration, runs, maxRuns int) time.Duration {
	left := time.Duration(float64(elapsed) / float64(max(1, runs)) * float64(maxRuns-runs))
	return max(0, min(left, budget-elapsed)).Round(time.Second)
}
