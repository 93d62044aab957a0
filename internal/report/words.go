package report

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// faultTexts describes the effect of each kind of fault.
var faultTexts = map[fault.Kind]string{
	fault.KindLag:          "watch events came late",
	fault.KindRelist:       "the watch expired (410) and the informer listed again",
	fault.KindDisconnect:   "the watch was cut and resumed",
	fault.KindDropBookmark: "a progress bookmark was lost",
	fault.KindConflict:     "another user wrote the object first, and a write was answered 409",
	fault.KindQuota:        "a quota had no room, and a create was answered 403",
	fault.KindDeny:         "an admission webhook denied a write",
	fault.KindThrottle:     "a request was answered 429",
	fault.KindError:        "a request was answered 500",
	fault.KindTimeout:      "a request had no effect and no answer",
	fault.KindLostAnswer:   "a write had effect and its answer was lost",
	fault.KindErrorAfter:   "a write had effect and was answered 500",
	fault.KindLateAnswer:   "the answer to a write came late",
	fault.KindLateRequest:  "a request was carried out late",
	fault.KindCrashBefore:  "the controller crashed right before a write",
	fault.KindCrashAfter:   "the controller crashed right after a write",
	fault.KindOverlap:      "two instances of the controller ran at once",
	fault.KindDeposedWrite: "a write of a terminated instance took effect after its successor had started",
	fault.KindOutage:       "the API was unavailable to the controller for a while",
	fault.KindPartition:    "writes of the controller had no effect and no answer for a while",
	fault.KindStaleList:    "a list was answered from an older state, which it permits",
	fault.KindOtherServer:  "the controller was connected to another API server, whose watch caches were behind",
	fault.KindExpiredPage:  "a further page of a list was answered 410",
	fault.KindPause:        "the controller paused for a while",
	fault.KindDelete:       "another actor deleted the object",
	fault.KindEvict:        "another actor evicted the pod",
	fault.KindLabel:        "another actor labelled the object",
	fault.KindFinalizer:    "another actor added a finalizer to the object",
	fault.KindRecreate:     "another actor deleted the object and created it again",
	fault.KindEdit:         "another actor edited the object twice, so that it ended as it began",
	fault.KindLoseEvent:    "a watch event was lost for good",
	fault.KindRepeatEvent:  "a watch event came twice",
	fault.KindTimeTravel:   "a new instance listed from a server with older state",
}

// faultText returns the description of a fault, with its text form.
func faultText(text string) string {
	kind, _, _ := strings.Cut(text, " ")
	if w := faultTexts[fault.Kind(kind)]; w != "" {
		return w + " (" + text + ")"
	}
	return text
}

// plannedFault describes a fault of the plan. effective is false if no step of the run shows that it took effect: a plan
// may contain faults that meet nothing. A delay that had not ended when the run was violated has no step either; the search keeps it in the plan only if it
// met something.
func plannedFault(run *history.Run, text string) (words string, effective bool) {
	for i := range run.Steps {
		if run.Steps[i].Fault == text {
			return faultText(text), true
		}
	}
	if kind, _, _ := strings.Cut(text, " "); run.Failure != nil && !run.Failure.AtEnd && fault.Kind(kind).IsDelay() {
		return faultText(text) + ", which was not over at the violation", true
	}
	return "planned, but no step shows an effect: " + text, false
}

// namer formats objects: without the namespace if the run has only one.
type namer struct{ single string }

func newNamer(run *history.Run) namer {
	single := ""
	for i := range run.Steps {
		switch ns := run.Steps[i].Namespace; {
		case ns == "" || ns == single:
		case single == "":
			single = ns
		default:
			return namer{}
		}
	}
	return namer{single}
}

func (n namer) key(o history.Object) string {
	switch {
	case o.Namespace == "" || o.Namespace == n.single:
		return o.Name
	case o.Name == "":
		return "in " + o.Namespace
	}
	return o.Key()
}

// object returns, for example, "pods web-1" or "pods/status web-1".
func (n namer) object(s *history.Step) string {
	resource := short(s.Resource)
	if s.Subresource != "" {
		resource += "/" + s.Subresource
	}
	return strings.TrimSpace(resource + " " + n.key(s.Object))
}

// short returns a resource without its group.
func short(resource string) string {
	name, _, _ := strings.Cut(resource, ".")
	return name
}

// request describes a request and its answer.
func (n namer) request(s *history.Step) string {
	text := s.Verb + " " + n.object(s) + " → "
	switch {
	case s.Code/100 == 2 && s.Revision != 0:
		text += fmt.Sprintf("@%d", s.Revision)
	case s.Code/100 == 2:
		text += "ok"
	case s.Code != 0:
		text += fmt.Sprint(s.Code)
	default:
		text += "no answer"
	}
	if s.Code >= 400 && s.Fault == "" && s.Note != "" {
		text += " (" + s.Note + ")"
	}
	switch s.Reply {
	case lost:
		if s.Code == 0 {
			break
		}
		text += ", answer lost"
	case late:
		text += ", answer late"
	case failed:
		text += ", but answered 500"
	case "":
	default:
		text += ", answer " + s.Reply
	}
	return text
}

// viewText returns, for example, "pods@12 (-3)": the revision that a view has reached, and the number of
// writes that it has not observed.
func (p *replay) viewText(v *view) string {
	text := short(v.resource) + "@"
	if v.reached == 0 {
		text += "none"
	} else {
		text += fmt.Sprint(v.reached)
	}
	if unseen := len(p.unseen(v)); unseen > 0 {
		text += fmt.Sprintf(" (-%d)", unseen)
	}
	return text
}

// clock formats virtual time.
func clock(d time.Duration) string {
	if d >= time.Hour {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// Clean replaces control characters in text from a cluster, so that it cannot change how a terminal or a page
// shows it.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
}

// plural returns, for example, "1 step" or "3 steps".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
