package stage

import (
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"strings"
	"time"
)

// Explanation reports whether one stage matches an object.
type Explanation struct {
	Stage   string
	Matches bool
	// Because is the first requirement that does not hold; empty if all hold.
	Because string
	// Got is the value in the object to which Because refers.
	Got string
	// Problem explains what could not be evaluated on this object: the requirement, the weight or the delay. It
	// affects no other stage.
	Problem string
}

// Explain reports for every stage of the object's kind, by name, whether it matches and, if not, the first
// requirement that fails.
func (s *Set) Explain(o Object, scene Scene) []Explanation {
	v := expr.View{Object: o, Now: time.Unix(0, 0), UID: o.GetUID()}
	var out []Explanation
	for _, c := range s.stages(KindOf(o)) {
		e := Explanation{Stage: c.Name, Matches: true}
		if c.needsNodeReady && !scene.NodeReady {
			e.Matches, e.Because = false, "the pod's node is not Ready"
		}
		for i := 0; e.Matches && i < len(c.Requirements); i++ {
			if r := &c.Requirements[i]; !r.Holds(&v, c.Name) {
				e.Matches, e.Because, e.Problem = false, r.Text, r.problem(&v, c.Name)
				e.Got = r.Got(&v)
			}
		}
		if e.Matches {
			e.Problem = c.weightProblem(&v)
		}
		if e.Matches && e.Problem == "" {
			_, _, e.Problem = c.delay.after(&v, v.Now, c.Name)
		}
		out = append(out, e)
	}
	return out
}

// Got returns in one line the value in the object to which a requirement refers.
func (r *Requirement) Got(v *expr.View) string {
	switch {
	case r.CEL != nil:
		return ""
	case !r.Query.HasProgram():
		return r.Query.First(v).Describe()
	}
	all, err := r.Query.Results(v)
	if err != nil || len(all) == 0 {
		return "nothing"
	}
	var out []string
	for _, one := range all {
		out = append(out, brief(one))
	}
	return strings.Join(out, ", ")
}
