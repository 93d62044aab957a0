//go:build unix

package live

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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/apiserver"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/scenario"
	"github.com/rehearse-k8s/rehearse/store"
)

// somebodys is a cluster of somebody else, with things in it.
func somebodys(t *testing.T) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	s, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := s.RESTConfig("somebody")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"default", "elsewhere"} {
		if namespace != "default" {
			create(t, client.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		}
		create(t, client.CoreV1().ConfigMaps(namespace).Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string]string{"a": "b"}})
	}
	return config, client
}

func create[O any](t *testing.T, do func(context.Context, O, metav1.CreateOptions) (O, error), o O) O {
	t.Helper()
	made, err := do(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// borrow makes an arena of somebody's cluster.
func borrow(t *testing.T, config *rest.Config, text string) (*Arena, error) {
	t.Helper()
	s, err := scenario.Read("copies.yaml", []byte(text), nil)
	if err == nil {
		err = s.SetCommand([]string{os.Args[0]})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Options{Scenario: s, Dir: filepath.Join(t.TempDir(), "arena"), Target: config})
	if err == nil {
		a.lengths.calm, a.lengths.patience, a.lengths.clinging = 300*time.Millisecond, 3*time.Second, 100*time.Millisecond
	}
	return a, err
}

// TestBorrowed: in a cluster of somebody else faults do the same, each run begins as the
// first one did, and in the end everything is there that was, and nothing else.
func TestBorrowed(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	config, client := somebodys(t)
	before := objects(t, client)
	changing := strings.Replace(story, "  invariants:", `  - patch: {resource: configmaps, namespace: default, name: settings, patch: {data: {k: other}}}
  - delete: {resource: configmaps, namespace: default, name: spare}
  invariants:`, 1)
	changing = strings.Replace(changing, "metadata: {name: copy-b, namespace: default}", "metadata: {name: copy-b, namespace: default, finalizers: [example.com/nobodys]}", 1)
	changing = strings.Replace(changing, "controllers: []", `controllers: [], objects: [
    {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, data: {k: v}}},
    {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: spare, namespace: default}, data: {k: v}}}]`, 1)
	a, err := borrow(t, config, changing)
	if err != nil {
		t.Fatal(err)
	}
	for _, faults := range [][]string{
		nil,
		{"crash-before actor=copier verb=create object=default/copy-b"},
		{"finalizer actor=copier verb=create object=default/copy-a for=200ms"},
		{"lag actor=copier resource=configmaps nth=1 for=300ms"},
	} {
		run := play(t, a, faults...)
		if run.Failure != nil {
			t.Errorf("%v: %+v", faults, run.Failure)
		}
		made := writes(run)
		copies := slices.ContainsFunc(made, func(s history.Step) bool { return s.Actor == "copier" && s.Name == "copy-b" && len(s.Changes) == 1 })
		settings := slices.ContainsFunc(made, func(s history.Step) bool { return s.Actor == "user" && s.Name == "settings" && len(s.Changes) == 1 })
		if !copies || !settings {
			t.Errorf("%v: the record lacks a copy (%v) or a change of the user's (%v)", faults, copies, settings)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if after := objects(t, client); !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// objects are the ConfigMaps and Secrets of a cluster, with what they hold.
func objects(t *testing.T, client kubernetes.Interface) (all []string) {
	t.Helper()
	maps, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maps.Items {
		m := &maps.Items[i]
		all = append(all, "configmap "+m.Namespace+"/"+m.Name+" "+string(m.UID)+" "+m.ResourceVersion)
	}
	secrets, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		all = append(all, "secret "+secrets.Items[i].Namespace+"/"+secrets.Items[i].Name)
	}
	return all
}

// TestBorrowedThings: what is somebody's already is not played with.
func TestBorrowedThings(t *testing.T) {
	config, client := somebodys(t)
	mine := strings.NewReplacer("copy-a", "mine").Replace(story)
	var refused *StoryError
	if _, err := borrow(t, config, mine); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the cluster has a ConfigMap mine already") {
		t.Error(err)
	}
	first := strings.Replace(story, "controllers: []", `controllers: [], objects: [
    {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: fresh, namespace: default}}},
    {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: mine, namespace: default}}}]`, 1)
	if _, err := borrow(t, config, first); !errors.As(err, &refused) {
		t.Error(err)
	}
	create(t, client.CoreV1().ConfigMaps("default").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "going", Finalizers: []string{"example.com/f"}}})
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := borrow(t, config, story); !errors.As(err, &refused) || !strings.Contains(err.Error(), "ConfigMap going is being deleted") {
		t.Error(err)
	}
	if got := objects(t, client); slices.ContainsFunc(got, func(o string) bool { return strings.Contains(o, "fresh") }) {
		t.Errorf("what was made before the refusal is left: %q", got)
	}
}

// TestBorrowedCalm: a world is not at rest because what the user did has not been heard of.
func TestBorrowedCalm(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	config, _ := somebodys(t)
	from, to := strings.Index(story, "  - wait:"), strings.Index(story, "  invariants:")
	s, err := scenario.Read("copies.yaml", []byte(story[:from]+story[to:strings.Index(story, "    eventually:")]), nil)
	if err == nil {
		err = s.SetCommand([]string{"sh", "-c", `sleep 1; exec "$0"`, os.Args[0]})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Options{Scenario: s, Dir: filepath.Join(t.TempDir(), "arena"), Target: config})
	if err != nil {
		t.Fatal(err)
	}
	a.lengths.calm = 300 * time.Millisecond
	run := play(t, a)
	if !slices.ContainsFunc(writes(run), func(s history.Step) bool { return s.Actor == "copier" && len(s.Changes) == 1 }) {
		t.Errorf("the run was over before the world had heard of what the client wrote: %d steps", len(run.Steps))
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
