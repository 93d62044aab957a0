package html

import (
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// markView is a piece of an arrow in the units of the page's style: tracks are 9 pixels apart, and the first
// line of a cell's text is 16 pixels below its upper edge. No script measures anything, so the arrows print
// as they are shown.
type markView struct {
	How, Description string
	X                int
	Y1, Y2           string
	Down             bool // a piece along the track
	From             bool // it begins here
	Arrow            bool // it reaches the cache here
	Head             string
	Cross            bool // it ends without a delivery
	CrossY           string
	Open             bool // it is not delivered by the end of the run
}

const (
	firstTrack = 7
	trackWidth = 9
	middle     = "16"
)

func markOf(m report.Mark) markView {
	v := markView{How: m.How, Description: m.Description, X: firstTrack + trackWidth*m.Track, From: m.From, Y1: "0", Y2: "100%"}
	if v.How == "" {
		v.How = "intime"
	}
	if m.From {
		v.Y1 = middle
	}
	if m.To {
		switch m.How {
		case "lost":
			v.Y2, v.Cross, v.CrossY = middle, true, middle
			if m.From {
				v.Y2, v.CrossY = "100%", "85%"
			}
		case "open":
			v.Open = true
		case "held":
			v.Cross, v.CrossY = true, "90%"
		default:
			v.Y2, v.Arrow = middle, true
			v.Head = "M-7 -4L-1 0L-7 4"
			if m.How == "twice" {
				v.Head += "M-13 -4L-7 0L-13 4"
			}
		}
	}
	v.Down = v.Y1 != v.Y2
	return v
}
