package report

import "slices"

const (
	stepWidth, timeWidth = 4, 8
	minLane              = 10 // minimal columns of a lane
	minPair              = 13 // minimal columns of each of the two lanes of a controller
)

// lane is a column.
type lane struct {
	title, actor string
	kind         laneKind
	weight       int
}

type laneKind int

const (
	userLane laneKind = iota
	truthLane
	cacheLane
	requestLane
	bothLane // a controller's cache and requests in one lane, if there is no room for two
	kubeletLane
)

// layOut chooses the lanes. A controller without a drawn step has none. It returns the controllers for which
// there is no room.
func (d *drawing) layOut(width int, steps []int) (noRoom []string) {
	var names []string
	hasKubelet := false
	for _, n := range steps {
		switch a := d.run.Steps[n].Actor; {
		case a == kubelet:
			hasKubelet = true
		case a != user && !slices.Contains(names, a) && slices.Contains(d.run.Controllers(), a):
			names = append(names, a)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return slices.Index(d.run.Controllers(), a) - slices.Index(d.run.Controllers(), b)
	})
	for pairs := true; ; {
		d.lanes = []lane{{"user", user, userLane, 3}, {"truth", "", truthLane, 4}}
		for _, name := range names {
			if pairs {
				d.lanes = append(d.lanes, lane{name + " cache", name, cacheLane, 4}, lane{name + " requests", name, requestLane, 5})
			} else {
				d.lanes = append(d.lanes, lane{name, name, bothLane, 6})
			}
		}
		if hasKubelet {
			d.lanes = append(d.lanes, lane{kubelet, kubelet, kubeletLane, 3})
		}
		weights := make([]int, len(d.lanes))
		for i, l := range d.lanes {
			weights[i] = l.weight
		}
		room := width - (stepWidth + 1 + timeWidth + 1) - 3*len(d.lanes)
		d.widths = append([]int{stepWidth + 1 + timeWidth}, share(room, weights)...)
		narrowest := slices.Min(d.widths[1:])
		switch {
		case pairs && narrowest < minPair && len(names) > 0:
			pairs = false
		case narrowest < minLane && len(names) > 1:
			noRoom = append(noRoom, names[len(names)-1])
			names = names[:len(names)-1]
		default:
			return noRoom
		}
	}
}
