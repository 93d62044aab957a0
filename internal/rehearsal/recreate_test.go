//go:build unix

package rehearsal

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

const ownedCopies = `
apiVersion: rehearse-k8s.github.io/v1alpha1
kind: Scenario
metadata: {name: copies}
spec:
  cluster: {nodes: 0, controllers: []}
  clients: [{name: copier}]
  steps:
  - create: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy-a, namespace: default}, data: {by: user}}}
  - wait: {oracle: Exists, with: {resource: secrets, name: copy-a}, within: 10s}
  - patch: {resource: configmaps, name: copy-a, patch: {data: {later: "yes"}}}
  - create: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy-b, namespace: default}}}
  invariants:
    always:
    - name: the user's objects exist
      cel: get("configmaps", "default", "copy-a") != null || list("secrets", "default").size() == 0
    eventually:
    - oracle: Exists
      with: {resource: secrets, name: copy-b}
      within: 5s
    - name: the user's object has what the user wrote
      cel: get("configmaps", "default", "copy-a").data == {"by":"user", "later":"yes"}
      within: 5s
`

// TestRecreate: another user deletes an object and creates it again, with what the user wrote, earlier or later. Its
// dependents are collected, although the run has no garbage collector.
func TestRecreate(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "owner")
	a := open(t, ownedCopies, os.Args[0])
	for _, text := range []string{
		"recreate actor=copier verb=create object=default/copy-a target=configmaps/default/copy-a",
		"recreate actor=copier verb=create object=default/copy-b target=configmaps/default/copy-a",
	} {
		run := play(t, a, text)
		if run.Failure != nil {
			t.Errorf("%s: %+v", text, run.Failure)
		}
		var old string
		deleted, created, collected := false, false, false
		for _, s := range run.Steps {
			switch by := s.Actor == history.OtherUser; {
			case by && s.Verb == "delete" && s.Resource == "configmaps":
				deleted = old != "" && s.Name == "copy-a"
			case by && s.Verb == "create":
				created = deleted && s.UID != "" && s.UID != old
			case by && s.Verb == "delete" && s.Resource == "secrets":
				collected = created
			case s.Actor == "user" && s.Verb == "create" && s.Name == "copy-a":
				old = s.UID
			}
		}
		if !collected {
			t.Errorf("%s: deleted %t, created again %t, collected %t", text, deleted, created, collected)
		}
	}
}

// TestCollectsWithoutEnd: a client creates a dependent of an owner that is gone again and again, and each is collected. The
// run ends, and its failure names the client that does not stop to write.
func TestCollectsWithoutEnd(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "owner of the past")
	a := open(t, ownedCopies, os.Args[0])
	a.timeouts.collect, a.timeouts.recreate = 100*time.Millisecond, time.Second
	a.timeouts.quiet, a.timeouts.writes = 3*time.Second, 6*time.Second // on a busy machine, the client may need a second for its next write
	run := play(t, a, "recreate actor=copier verb=create object=default/copy-b target=configmaps/default/copy-a")
	if f := run.Failure; f == nil || f.Oracle != verdict.QuiescenceOracle || !strings.Contains(f.Message, "copier") {
		t.Errorf("%+v", f)
	}
}

// TestRecreateWaits: an object with a finalizer is created again once the finalizer is gone, and not if the user deletes
// it before. A client that keeps the finalizer delays the user for a limited time.
func TestRecreateWaits(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	text := strings.NewReplacer("namespace: default}, data: {by: user}", "namespace: default, finalizers: [x.example/y]}, data: {by: user}",
		`  - patch: {resource`, "  - patch: {resource: configmaps, name: copy-a, patch: {metadata: {finalizers: null}}}\n  - patch: {resource").Replace(ownedCopies)
	const recreate = "recreate actor=copier verb=create object=default/copy-a target=configmaps/default/copy-a"
	createdAgain := func(run *history.Run) bool {
		for _, s := range writes(run) {
			if s.Actor == history.OtherUser && s.Verb == "create" {
				return true
			}
		}
		return false
	}
	a := open(t, text, os.Args[0])
	a.timeouts.recreate = 100 * time.Millisecond
	run := play(t, a, recreate)
	if run.Failure != nil || !createdAgain(run) {
		t.Errorf("%+v; created again: %t", run.Failure, createdAgain(run))
	}
	text = strings.Replace(text, "  - patch: {resource", "  - delete: {resource: configmaps, name: copy-a}\n  - patch: {resource", 1)
	text = strings.Replace(text, `    - name: the user's object has what the user wrote
      cel: get("configmaps", "default", "copy-a").data == {"by":"user", "later":"yes"}
      within: 5s
`, "", 1)
	text = strings.Replace(text, `get("configmaps", "default", "copy-a") != null || list("secrets", "default").size() == 0`, "1 == 1", 1)
	a = open(t, text, os.Args[0])
	a.timeouts.recreate = 100 * time.Millisecond
	run = play(t, a, recreate)
	if run.Failure != nil || createdAgain(run) {
		t.Errorf("%+v; created again: %t", run.Failure, createdAgain(run))
	}
}
