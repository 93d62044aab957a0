package faults

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Row is one fault and what the client observes of it.
type Row struct {
	// Text is the fault in text form, for the object of a test with NS in place of the namespace; empty: no
	// fault.
	Text string
	// Observed has one line per instance of the client: the answers to its requests, and the
	// events of its watch, each in their order.
	Observed string
	// First and Then order two observations, of which one may be UserWrote; empty: no order.
	First, Then string
	// Objects are the objects at the end, with their labels and finalizers.
	Objects string
}

// UserWrote is what the test records after the user has updated a and created b, half a second after the
// client was started.
const UserWrote = "user wrote"

const (
	requests = "list a, create: ok, update: ok | "
	events   = "ADDED mark, MODIFIED mark1, MODIFIED a1, ADDED b"
	later    = "MODIFIED a1, ADDED b"
)

// Table has the kinds that act on any client. The kinds that are left out are in [Elsewhere].
var Table = []Row{
	{"", requests + events, "", "", "a1 b mark1"},

	{"lag object=NS/a for=2s", requests + events, UserWrote, "MODIFIED a1", "a1 b mark1"},
	{"relist object=NS/a for=2s", requests + "ADDED mark, MODIFIED mark1, end, expired, list a1 b mark1", UserWrote, "end", "a1 b mark1"},
	{"disconnect object=NS/a", requests + "ADDED mark, MODIFIED mark1, end, MODIFIED a1, ADDED b", "", "", "a1 b mark1"},
	{"lose-event object=NS/a", requests + "ADDED mark, MODIFIED mark1, ADDED b", "", "", "a1 b mark1"},
	{"repeat-event object=NS/a", requests + "ADDED mark, MODIFIED mark1, MODIFIED a1, MODIFIED a1, ADDED b", "", "", "a1 b mark1"},

	{"conflict verb=update", "list a, create: ok, update: Conflict | ADDED mark, MODIFIED mark, " + later, "", "", "a1 b mark"},
	{"throttle verb=create", "list a, create: TooManyRequests | " + later, "", "", "a1 b"},
	{"error verb=create", "list a, create: InternalError | " + later, "", "", "a1 b"},
	{"quota verb=create", "list a, create: Forbidden | " + later, "", "", "a1 b"},
	{"deny verb=update", "list a, create: ok, update: Forbidden | ADDED mark, " + later, "", "", "a1 b mark"},
	{"timeout verb=create", "list a, create: no answer | " + later, UserWrote, "create: no answer", "a1 b"},
	{"partition verb=create for=2s", "list a, create: no answer | " + later, UserWrote, "create: no answer", "a1 b"},
	{"lost-answer verb=create", "list a, create: no answer | ADDED mark, " + later, "", "", "a1 b mark"},
	{"error-after verb=create", "list a, create: 500 | ADDED mark, " + later, "", "", "a1 b mark"},
	{"late-answer verb=create for=2s", requests + "ADDED mark, " + later + ", MODIFIED mark1", "ADDED mark", "create: ok", "a1 b mark1"},
	{"late-request verb=create for=2s", requests + later + ", ADDED mark, MODIFIED mark1", UserWrote, "create: ok", "a1 b mark1"},

	{"crash-before verb=create", "list a\n" + requests + events, "", "", "a1 b mark1"},
	{"crash-after verb=create", "list a\nlist a mark, create: AlreadyExists | " + later, "", "", "a1 b mark"},
	{"overlap verb=update for=1h", requests + events + "\nlist a mark1, create: AlreadyExists | " + later, "", "", "a1 b mark1"},
	{"deposed-write verb=update for=2s", "list a, create: ok\nlist a mark, create: AlreadyExists | " + later + ", MODIFIED mark1", UserWrote, "MODIFIED mark1", "a1 b mark1"},
	{"pause verb=update for=2s", requests + "ADDED mark, " + later + ", MODIFIED mark1", UserWrote, "update: ok", "a1 b mark1"},

	// The interfering request comes right after the write, and the client's next request may overtake it.
	{"delete verb=update", requests + "ADDED mark, MODIFIED mark1, DELETED mark1, " + later, "", "", "a1 b"},
	{"label verb=update", requests + "ADDED mark, MODIFIED mark1, MODIFIED mark1, " + later, "", "", "a1 b mark1[touched]"},
	{"finalizer verb=update for=1h", requests + "ADDED mark, MODIFIED mark1, MODIFIED mark1, " + later, "", "", "a1 b mark1[" + path.Base(fault.InterferenceFinalizer) + "]"},

	{"recreate verb=update target=configmaps/NS/a", requests + "ADDED mark, MODIFIED mark1, DELETED a, ADDED a, " + later, "", "", "a1 b mark1"},
	{"edit verb=update", requests + "ADDED mark, MODIFIED mark1, MODIFIED mark1, MODIFIED mark1, " + later, "", "", "a1 b mark1"},
	{"label verb=update target=configmaps/NS/a", requests + "ADDED mark, MODIFIED mark1, MODIFIED a, " + later, "", "", "a1 b mark1"},

	// Two faults on one request or stream.
	{"error verb=create; lost-answer verb=create", "list a, create: no answer | " + later, "", "", "a1 b"},
	{"error-after verb=create; lost-answer verb=create", "list a, create: no answer | ADDED mark, " + later, "", "", "a1 b mark"},
	{"error-after verb=update; conflict verb=update", "list a, create: ok, update: Conflict | ADDED mark, MODIFIED mark, " + later, "", "", "a1 b mark"},
	{"pause verb=create for=2s; conflict verb=update", "list a, create: ok, update: Conflict | " + later + ", ADDED mark, MODIFIED mark", UserWrote, "create: ok", "a1 b mark"},
	{"conflict verb=update; overlap verb=update for=1h", "list a, create: ok, update: Conflict | ADDED mark, MODIFIED mark, " + later + "\nlist a mark, create: AlreadyExists | " + later, "", "", "a1 b mark"},
	{"lag object=NS/a for=2s; lose-event object=NS/b", requests + "ADDED mark, MODIFIED mark1, MODIFIED a1", UserWrote, "MODIFIED a1", "a1 b mark1"},
	{"lag object=NS/a for=2s; disconnect object=NS/b", requests + "ADDED mark, MODIFIED mark1, MODIFIED a1, end, ADDED b", UserWrote, "MODIFIED a1", "a1 b mark1"},
}

// Elsewhere are the kinds that the table leaves out, with the reason.
var Elsewhere = map[fault.Kind]string{
	fault.KindDropBookmark: "a server sends the first bookmark after a minute: internal/inject and simtest test it",
	fault.KindEvict:        "acts on pods; it differs from delete only in its request: simtest and internal/rehearsal test it",
	fault.KindOutage:       "which events the client receives before its watch ends depends on timing: TestOutage of simtest and internal/proxy tests it",
	fault.KindStaleList:    "acts only on lists that permit an older state: TestStaleList of simtest and internal/proxy tests it",
	fault.KindOtherServer:  "like outage: TestStaleList of simtest and TestOtherServer of internal/proxy test it",
	fault.KindExpiredPage:  "acts only on lists in pages: TestExpiredPage of simtest and internal/proxy tests it",
	fault.KindTimeTravel:   "needs a server with an older state, which only simtest has",
}

// Faults are the faults of a row in a namespace.
func (r *Row) Faults(t testing.TB, namespace string) (faults []fault.Fault) {
	t.Helper()
	for text := range strings.SplitSeq(strings.ReplaceAll(r.Text, "NS", namespace), ";") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		f, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		f.Actor, f.Resource = Actor, "configmaps"
		faults = append(faults, f)
	}
	return faults
}

// DelaysWrite reports whether the faults of the row delay a write or its answer, and the user writes meanwhile.
func (r *Row) DelaysWrite() bool { return r.First != "" && strings.Contains(r.Text, "verb=") }

// Instances is the number of instances of the client that start.
func (r *Row) Instances() int { return 1 + strings.Count(r.Observed, "\n") }

// Complete reports whether the client has observed everything that the row expects.
func (r *Row) Complete(c *Client) bool { return c.observed() == r.Observed }

// Check compares what the client has observed, and the objects at the end, with the row.
func (r *Row) Check(t testing.TB, c *Client, objects []metav1.Object) {
	t.Helper()
	if have := c.observed(); have != r.Observed {
		t.Errorf("the client observed\n%s\nwant\n%s", have, r.Observed)
	}
	if r.First != "" && !c.before(r.First, r.Then) {
		t.Errorf("%q was not observed before %q", r.First, r.Then)
	}
	if have := describe(objects); have != r.Objects {
		t.Errorf("objects %q; want %q", have, r.Objects)
	}
}

// describe returns the objects in the order of their names, as text.
func describe(objects []metav1.Object) string {
	var texts []string
	for _, o := range objects {
		var marks []string
		for label := range o.GetLabels() {
			marks = append(marks, label)
		}
		text := o.GetName() + data(o)
		for _, mark := range append(marks, o.GetFinalizers()...) {
			text += fmt.Sprintf("[%s]", mark[strings.LastIndex(mark, "/")+1:])
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// data returns the content of a ConfigMap.
func data(o metav1.Object) string {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return o.Data["n"]
	case *unstructured.Unstructured:
		n, _, _ := unstructured.NestedString(o.Object, "data", "n")
		return n
	}
	return ""
}
