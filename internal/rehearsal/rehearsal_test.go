//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// TestMain lets this test binary run as a client.
func TestMain(m *testing.M) {
	switch os.Getenv("LIVE_TEST_CLIENT") {
	case "":
	case "meddler":
		if err := meddler(context.Background()); err != nil {
			panic(err)
		}
		os.Exit(0)
	default:
		if err := copier(context.Background()); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	apiserver.Quiet()
	os.Exit(m.Run())
}

// copier is a client that creates a Secret for each ConfigMap called copy-…, with the same name. It leaves
// an existing Secret alone. As an owner, it sets the owner reference of the Secret, and creates it again if it is deleted.
func copier(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if isOwner() {
		go ownSecrets(ctx, client)
	}
	for {
		list, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range list.Items {
			copied(ctx, client, &list.Items[i])
		}
		w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			if o, ok := e.Object.(*corev1.ConfigMap); ok {
				copied(ctx, client, o)
			}
		}
	}
}

func isOwner() bool { return strings.HasPrefix(os.Getenv("LIVE_TEST_CLIENT"), "owner") }

// ownSecrets creates the Secret of a ConfigMap again when it is deleted. As an owner of the past, it does so with the old
// owner reference, although that ConfigMap may be gone.
func ownSecrets(ctx context.Context, client kubernetes.Interface) {
	for {
		list, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		w, err := client.CoreV1().Secrets("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			if e.Type != watch.Deleted {
				continue
			}
			if os.Getenv("LIVE_TEST_CLIENT") == "owner of the past" {
				old := e.Object.(*corev1.Secret)
				_, _ = client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: old.Name, OwnerReferences: old.OwnerReferences}}, metav1.CreateOptions{})
				continue
			}
			if o, err := client.CoreV1().ConfigMaps("default").Get(ctx, e.Object.(*corev1.Secret).Name, metav1.GetOptions{}); err == nil {
				copied(ctx, client, o)
			}
		}
	}
}

func copied(ctx context.Context, client kubernetes.Interface, o *corev1.ConfigMap) {
	if !strings.HasPrefix(o.Name, "copy-") {
		return
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	if isOwner() {
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	}
	_, _ = client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{})
}

const copyScenario = `
apiVersion: rehearse-k8s.github.io/v1alpha1
kind: Scenario
metadata: {name: copies}
spec:
  cluster: {nodes: 0, controllers: []}
  clients: [{name: copier}]
  steps:
  - create: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy-a, namespace: default}}}
  - wait: {oracle: Exists, with: {resource: secrets, name: copy-a}, within: 10s}
  - create: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy-b, namespace: default}}}
  invariants:
    always:
    - name: a copy is never without its original
      cel: list("secrets", "default").all(s, get("configmaps", "default", s.metadata.name) != null)
    eventually:
    - oracle: Exists
      with: {resource: secrets, name: copy-b}
      within: 5s
`

// open opens a harness for a scenario and a command.
func open(t *testing.T, text string, command ...string) *Harness {
	t.Helper()
	s, err := scenario.Read("copies.yaml", []byte(text), nil)
	if err == nil {
		err = s.SetCommand(command)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Options{Scenario: s, Dir: filepath.Join(t.TempDir(), "harness")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	a.timeouts.quiet, a.timeouts.end = 300*time.Millisecond, 3*time.Second
	return a
}

func play(t *testing.T, a *Harness, faults ...string) *history.Run {
	t.Helper()
	all, err := fault.ParseAll(faults)
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Play(t.Context(), sim.Plan{Seed: 1, Faults: all, Learn: len(faults) == 0})
	if err != nil {
		t.Fatal(err)
	}
	return out.Run
}

// TestPlay: faults have their effect on a real process, and each run begins in the initial state.
func TestPlay(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	a := open(t, copyScenario, os.Args[0])
	for name, c := range map[string]struct {
		fault string
		shows func(s *history.Step) bool
	}{
		"nothing":             {"", func(s *history.Step) bool { return s.Wrote() && s.Actor == "copier" && s.Name == "copy-b" }},
		"a crash before":      {"crash-before actor=copier verb=create object=default/copy-b", func(s *history.Step) bool { return s.Kind == history.Start && s.Fault != "" }},
		"a crash after":       {"crash-after actor=copier verb=create object=default/copy-a", func(s *history.Step) bool { return s.Kind == history.Start && s.Fault != "" }},
		"a crash for a while": {"crash-after actor=copier verb=create object=default/copy-a for=500ms", func(s *history.Step) bool { return s.Kind == history.Start && s.At > 500*time.Millisecond }},
		"a second instance":   {"overlap actor=copier verb=create object=default/copy-a for=300ms", func(s *history.Step) bool { return s.Kind == history.Crash && s.Actor == "copier" }},
		"a deposed leader's write": {"deposed-write actor=copier verb=create object=default/copy-b for=300ms", func(s *history.Step) bool {
			return s.Kind == history.Request && s.Actor == "copier" && s.Fault != "" && s.Reply == "lost" && s.Code != 0 && s.At > 300*time.Millisecond
		}},
		"a deposed leader":     {"deposed-write actor=copier verb=create object=default/copy-b for=300ms", func(s *history.Step) bool { return s.Kind == history.Start && s.Actor == "copier+" }},
		"another user's label": {"label actor=copier verb=create object=default/copy-a", func(s *history.Step) bool { return s.Wrote() && s.Actor == "other-user" && s.Fault != "" }},
		"another user recreates": {"recreate actor=copier verb=create object=default/copy-a target=configmaps/default/copy-a", func(s *history.Step) bool {
			return s.Wrote() && s.Actor == "other-user" && s.Verb == "create" && s.Resource == "configmaps" && s.Name == "copy-a"
		}},
		"another user edits": {"edit actor=copier verb=create object=default/copy-a target=configmaps/default/copy-a", func(s *history.Step) bool {
			return s.Wrote() && s.Actor == "other-user" && s.Verb == "patch" && s.Resource == "configmaps"
		}},
		"another user's finalizer": {"finalizer actor=copier verb=create object=default/copy-a for=200ms", func(s *history.Step) bool { return s.Wrote() && s.Actor == "other-user" && s.N > 6 }},
		"a late event": {"lag actor=copier resource=configmaps nth=1 for=300ms", func(s *history.Step) bool {
			return s.Kind == history.Frame && s.Fault != "" && s.At > 300*time.Millisecond
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var faults []string
			if c.fault != "" {
				faults = append(faults, c.fault)
			}
			run := play(t, a, faults...)
			if run.Failure != nil {
				t.Errorf("%+v", run.Failure)
			}
			shown := false
			for i := range run.Steps {
				shown = shown || c.shows(&run.Steps[i])
			}
			if first := firstWrite(run); !shown || first == nil || first.Revision != firstRevision+1 || first.Name != "copy-a" || len(first.Changes) != 1 {
				t.Errorf("shown: %v; the first write is %+v", shown, first)
			}
			if !slices.IsSortedFunc(writes(run), func(a, b history.Step) int { return int(a.Revision - b.Revision) }) {
				t.Error("writes are not in the order of their revisions")
			}
		})
	}
}

// TestSlowStart: the time that a client needs to start after a fault does not count against an invariant's
// limit.
func TestSlowStart(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	a := open(t, strings.ReplaceAll(copyScenario, "within: 5s", "within: 500ms"), "sh", "-c", `sleep 2; exec "$0"`, os.Args[0])
	a.timeouts.end = 500 * time.Millisecond
	if run := play(t, a, "crash-before actor=copier verb=create object=default/copy-b"); run.Failure != nil {
		t.Errorf("%+v", run.Failure)
	}
}

func writes(run *history.Run) (all []history.Step) {
	for _, s := range run.Steps {
		if s.Wrote() {
			all = append(all, s)
		}
	}
	return all
}

func firstWrite(run *history.Run) *history.Step {
	for i := range run.Steps {
		if run.Steps[i].Wrote() {
			return &run.Steps[i]
		}
	}
	return nil
}

// TestViolated: an invariant is violated at the step that violates it, during the run; what does not happen
// in time is a violation at the end; a wait that times out is a violation, too.
func TestViolated(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	for name, c := range map[string]struct{ from, to, oracle string }{
		"always":     {`get("configmaps", "default", s.metadata.name) != null`, `s.metadata.name != "copy-a"`, "a copy is never without its original"},
		"eventually": {"name: copy-b}\n      within: 5s", "name: never}\n      within: 500ms", "secrets default/never exists, within 500ms"},
		"wait":       {"name: copy-a}, within: 10s", "name: other}, within: 500ms", "secrets default/other exists, within 500ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(copyScenario, c.from, c.to, 1)
			if text == copyScenario {
				t.Fatal("nothing was replaced")
			}
			run := play(t, open(t, text, os.Args[0]))
			if run.Failure == nil || run.Failure.Oracle != c.oracle {
				t.Fatalf("%+v", run.Failure)
			}
			if s := &run.Steps[run.Failure.Step]; name == "always" && (s.Name != "copy-a" || s.Resource != "secrets" || !s.Wrote()) {
				t.Errorf("violated at %+v", s)
			}
		})
	}
}

// TestNoClient: a program that cannot be tested is reported as such, not as a violation.
func TestNoClient(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		begin   time.Duration
		says    string
	}{
		"no program":        {[]string{"./no-such-program"}, time.Second, `program "./no-such-program" not found`},
		"exits immediately": {[]string{"sh", "-c", "echo unknown flag; exit 3"}, time.Minute, "exits immediately. Its last output:\n    unknown flag"},
		"sends no request":  {[]string{"sleep", "1000"}, time.Second, "sent no request through its kubeconfig within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t, copyScenario, c.command...)
			a.timeouts.firstRequest = c.begin
			_, err := a.Play(t.Context(), sim.Plan{Seed: 1, Learn: true})
			var client *ClientError
			if !errors.As(err, &client) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestRejectedStep: a step that the API rejects is an error of the scenario, with its line.
func TestRejectedStep(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	a := open(t, strings.Replace(copyScenario, "name: copy-a, namespace: default}", "name: copy-a, namespace: nowhere}", 1), os.Args[0])
	_, err := a.Play(t.Context(), sim.Plan{Seed: 1, Learn: true})
	var rejected *ScenarioError
	if !errors.As(err, &rejected) || !strings.Contains(err.Error(), "copies.yaml:9: create ConfigMap nowhere/copy-a") || !strings.Contains(err.Error(), `namespaces "nowhere" not found`) {
		t.Error(err)
	}
}

// TestKill: kill terminates a process and its children at once.
func TestKill(t *testing.T) {
	lines := make(chan string, 10)
	s, err := scenario.Read("copies.yaml", []byte(copyScenario), nil)
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"sh", "-c", "sleep 1000 & echo $! {{port}} {{port}} {{port:other}} {{name}}; wait"}
	p, err := launch(&s.Clients[0], command, map[string]string{"name": "copier"}, t.TempDir(), func(l string) { lines <- l })
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(<-lines)
	if len(words) != 5 || words[1] != words[2] || words[1] == words[3] || words[4] != "copier" {
		t.Errorf("%q", words)
	}
	// The child inherited the output of the process, which exits only when that is closed.
	p.kill()
	select {
	case <-p.exited:
	default:
		t.Error("the child is still running")
	}
	if !p.wasKilled() {
		t.Error("the process exited by itself")
	}
}
