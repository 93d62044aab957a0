package fault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// verbs of requests.
var verbs = []string{"create", "update", "patch", "delete", "deletecollection", "get", "list", "watch"}

// Check rejects an invalid fault, such as one that can never act on anything. Parse returns only
// faults that pass this check.
func (f Fault) Check() error {
	if err := f.check(); err != nil {
		return fmt.Errorf("fault %q: %w", f, err)
	}
	return nil
}

// isDelay reports whether faults of the kind hold one event, request or answer.
func (k Kind) isDelay() bool {
	switch k {
	case KindLag, KindRelist, KindLateRequest, KindLateAnswer:
		return true
	}
	return false
}

// isList reports whether faults of the kind act on lists only.
func (k Kind) isList() bool { return k == KindStaleList || k == KindExpiredPage }

func (f Fault) hasTarget() bool {
	_, ok := f.TargetObject()
	return ok
}

func (f Fault) check() error {
	t, ok := traitOf(f.Kind)
	switch {
	case !ok:
		return fmt.Errorf("unknown kind %q: want one of %s", string(f.Kind), kindList())
	case f.Nth < 0:
		return fmt.Errorf("nth=%d: want a number from 1", f.Nth)
	case f.For < 0:
		return fmt.Errorf("for=%s: want a duration such as 30s", f.For)
	case f.Writes < 0:
		return fmt.Errorf("writes=%d: want a number from 1", f.Writes)
	case f.Kind == KindStaleList && f.For != 0:
		return fmt.Errorf("for=%s: %s holds nothing; writes=2 makes the list miss the last two writes of its resource", f.For, f.Kind)
	case (f.For != 0 || f.Writes != 0) && !t.holds && f.Kind != KindStaleList:
		return fmt.Errorf("%s holds nothing: for and writes do not apply", f.Kind)
	case f.For != 0 && f.Writes != 0, f.Until != "" && (f.For != 0 || f.Writes != 0):
		return fmt.Errorf("for, writes and until: want at most one of them")
	case f.Until == "" && f.UntilRevision != 0, f.UntilRevision < 0, strings.ContainsAny(f.Until, "@/"):
		return fmt.Errorf("until=%s@%d: want a resource such as pods, or one with a revision such as pods@1042", f.Until, f.UntilRevision)
	case f.Until != "" && !f.Kind.isDelay():
		return fmt.Errorf("%s holds no event, request or answer: until does not apply", f.Kind)
	case f.Verb != "" && t.class == Event:
		return fmt.Errorf("%s acts on events, which have no verb: remove verb", f.Kind)
	// For a request outside the resource API the object is its path, and the verb may be any HTTP method.
	case f.Verb != "" && !slices.Contains(verbs, f.Verb) && !strings.HasPrefix(f.Object, "/"):
		return fmt.Errorf("verb=%s: want one of %s", f.Verb, strings.Join(verbs, ", "))
	case f.Kind.isList() && f.Verb != "" && f.Verb != "list" && (f.Verb != "watch" || f.Kind == KindExpiredPage):
		return fmt.Errorf("%s acts on lists: remove verb=%s", f.Kind, f.Verb)
	case f.Kind.isList() && (f.Object != "" || strings.Contains(f.Resource, "/")):
		return fmt.Errorf("%s acts on lists, which have no object and no subresource: remove them", f.Kind)
	case f.Verb != "" && !history.IsWriteVerb(f.Verb) && !f.Kind.isList() && !f.Kind.Allows(Item{Class: Call}):
		return fmt.Errorf("%s acts on writes, and %s is a read", f.Kind, f.Verb)
	case t.class == Event && strings.Contains(f.Resource, "/"):
		return fmt.Errorf("%s acts on events, and resource=%s is a subresource, which has no events", f.Kind, f.Resource)
	case f.Target != "" && t.class != Interference:
		return fmt.Errorf("%s changes no object as another user: target does not apply", f.Kind)
	case f.Target != "" && !f.hasTarget():
		return fmt.Errorf("target=%s: want an object such as deployments.apps/default/web or nodes/a", f.Target)
	case f.Kind == KindDropBookmark && f.Object != "":
		return fmt.Errorf("%s acts on bookmarks, which have no object: remove object", f.Kind)
	}
	return nil
}
