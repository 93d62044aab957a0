package workload

import (
	"fmt"
	"time"
)

// Decision is what a planner returns whatever the kind of the workload is. Each planner embeds
// it in a Decision of its own, which adds the Status, the Past and the Tally of that kind.
type Decision struct {
	// Recheck makes the shell read the owner from the API before it carries anything out. If
	// the owner has changed since, the shell carries nothing out.
	Recheck bool
	// Actions may be carried out in any order and concurrently.
	Actions []Action
	// Events are emitted after the status is written, or at once if there is no status to write.
	Events []Event
	// Wake is after how long to plan again although nothing has changed; zero for never.
	Wake time.Duration
	// Reasons explain the decision, in the order in which it was made.
	Reasons []Reason
}

// Event is an Event about the owner, as `kubectl describe` shows it.
type Event struct {
	Warning         bool
	Reason, Message string
}

// Act adds an action.
func (d *Decision) Act(a Action) { d.Actions = append(d.Actions, a) }

// WakeIn asks for another plan after a time, if none is due earlier; zero asks for none.
func (d *Decision) WakeIn(in time.Duration) { d.Wake = Soonest(d.Wake, in) }

// Because adds a reason.
func (d *Decision) Because(code, format string, args ...any) {
	d.Reasons = append(d.Reasons, Reason{Code: code, Text: fmt.Sprintf(format, args...)})
}

// Emit adds an Event.
func (d *Decision) Emit(warning bool, reason, message string) {
	d.Events = append(d.Events, Event{Warning: warning, Reason: reason, Message: message})
}
