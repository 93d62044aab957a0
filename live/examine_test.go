package live

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestKnown: a record is judged up to the first write of which nobody knows yet what it did.
func TestKnown(t *testing.T) {
	request := func(verb string, code int, reply, note string) history.Step {
		return history.Step{Kind: history.Request, Verb: verb, Code: code, Reply: reply, Note: note}
	}
	for name, c := range map[string]struct {
		steps []history.Step
		want  int
	}{
		"nothing":             {nil, 0},
		"all answered":        {[]history.Step{request("create", 201, "", ""), request("get", 0, "", ""), {Kind: history.Frame}}, 3},
		"one under way":       {[]history.Step{request("create", 201, "", ""), request("patch", 0, "", ""), {Kind: history.Frame}}, 1},
		"one without answer":  {[]history.Step{request("create", 0, "lost", ""), request("get", 200, "", "")}, 2},
		"one that went wrong": {[]history.Step{request("create", 0, "", "the server has gone"), request("get", 200, "", "")}, 2},
	} {
		run := &history.Run{Steps: c.steps}
		if got := len(known(run).Steps); got != c.want {
			t.Errorf("%s: %d steps, want %d", name, got, c.want)
		}
	}
}
