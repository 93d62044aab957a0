package report

import (
	"fmt"
	"slices"
	"sort"

	"github.com/rehearse-k8s/rehearse/history"
)

// arrow is one delivery: from the write to the step at which the controller observed it.
type arrow struct {
	lane     int
	from, to int // steps; to is len(Steps) if the write was not delivered
	how      string
}

// maxTracks limits the number of arrows that are drawn next to each other.
const maxTracks = 5

// deliveries draws, in the gap before each cache, arrows from the writes to the steps at which the controller
// observed them.
func (p *Picture) deliveries(d *drawing) {
	var arrows []arrow
	for i, l := range d.lanes {
		if l.kind == cacheLane {
			arrows = append(arrows, d.deliveries(i, l.actor)...)
			arrows = append(arrows, d.undelivered(i, l.actor)...)
		}
	}
	sort.SliceStable(arrows, func(i, j int) bool { return arrows[i].from < arrows[j].from })
	ends := map[int][]int{} // by lane: the row in which each track becomes free
	for _, a := range arrows {
		p.draw(a, ends)
	}
}

// deliveries returns the arrows of the events that a controller observed.
func (d *drawing) deliveries(lane int, actor string) (arrows []arrow) {
	// An event that waits behind a delayed one on its stream is late, too.
	activeFaults := map[int]history.Step{} // by stream: the fault that delays it
	released := map[int]int{}              // by stream: the step at which the delay ended
	for i := range d.run.Steps {
		s := &d.run.Steps[i]
		if s.Actor != actor {
			continue
		}
		if s.Kind == history.Fault && s.Stream != 0 {
			activeFaults[s.Stream] = *s
		}
		if s.Kind != history.Frame {
			continue
		}
		if f, ok := activeFaults[s.Stream]; ok && f.Revision == s.Revision {
			released[s.Stream] = i
			delete(activeFaults, s.Stream)
		}
		from := d.origin(s)
		if from < 0 {
			continue
		}
		a := arrow{lane: lane, from: from, to: i, how: delivery(s)}
		if a.how == "" && from < released[s.Stream] {
			a.how = late
		}
		arrows = append(arrows, a)
	}
	return arrows
}

// origin returns the write that an event reports, or -1 if this run has no such write.
func (d *drawing) origin(s *history.Step) int {
	for _, c := range s.Causes {
		if c >= 0 && c < s.N && d.run.Steps[c].Wrote() && d.run.Steps[c].Resource == s.Resource && s.Type != "BOOKMARK" {
			return c
		}
	}
	return -1
}

// undelivered returns the arrows of writes that a controller had not observed at the end of the run.
func (d *drawing) undelivered(lane int, actor string) (arrows []arrow) {
	d.advance(len(d.run.Steps))
	t := &explainer{replay: d.replay}
	var holds []*history.Step
	for i := range d.run.Steps {
		if s := &d.run.Steps[i]; s.Kind == history.Fault && s.Actor == actor {
			holds = append(holds, s)
		}
	}
	for _, v := range d.viewsOf(actor) {
		for _, n := range v.behind {
			if slices.Contains(v.missed, d.run.Steps[n].Revision) {
				continue // its arrow ends where the event was lost
			}
			a := arrow{lane: lane, from: n, to: len(d.run.Steps), how: stillOpen}
			for _, s := range holds {
				if (s.Revision == 0 || s.Revision <= d.run.Steps[n].Revision) && t.mayDelay(s.Fault, v) {
					a.how = stillDelayed
				}
			}
			arrows = append(arrows, a)
		}
	}
	return arrows
}

// draw adds the pieces of an arrow to the rows that it crosses.
func (p *Picture) draw(a arrow, ends map[int][]int) {
	first := sort.Search(len(p.Rows), func(i int) bool { return p.Rows[i].Step.N >= a.from })
	last := sort.Search(len(p.Rows), func(i int) bool { return p.Rows[i].Step.N >= a.to })
	if last == len(p.Rows) {
		last--
	}
	if first > last {
		return
	}
	tracks := ends[a.lane]
	track := slices.IndexFunc(tracks, func(until int) bool { return until < first })
	switch {
	case track >= 0:
		tracks[track] = last
	case len(tracks) < maxTracks:
		track = len(tracks)
		tracks = append(tracks, last)
	default:
		track = maxTracks - 1
		tracks[track] = max(tracks[track], last)
	}
	ends[a.lane] = tracks
	p.Lanes[a.lane].Tracks = max(p.Lanes[a.lane].Tracks, track+1)
	description := a.describe()
	for i := first; i <= last; i++ {
		n := p.Rows[i].Step.N
		m := Mark{Track: track, From: n == a.from, To: n == a.to || i == last && a.to > n, How: a.how, Description: description}
		p.Rows[i].Cells[a.lane].Marks = append(p.Rows[i].Cells[a.lane].Marks, m)
	}
}

// describe returns the text of the arrow.
func (a arrow) describe() string {
	switch a.how {
	case stillOpen:
		return fmt.Sprintf("the write of step %d, not delivered by the end of the run", a.from)
	case stillDelayed:
		return fmt.Sprintf("the write of step %d, delayed beyond the end of the run", a.from)
	case "":
		return fmt.Sprintf("the write of step %d, delivered at step %d", a.from, a.to)
	case lost:
		return fmt.Sprintf("the write of step %d, lost at step %d", a.from, a.to)
	}
	return fmt.Sprintf("the write of step %d, delivered at step %d: %s", a.from, a.to, a.how)
}
