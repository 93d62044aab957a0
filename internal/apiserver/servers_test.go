package apiserver_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// answers returns the answers of a server that show what it serves, by path.
func answers(t *testing.T, s *apiserver.Server) map[string]any {
	t.Helper()
	client, err := rest.HTTPClientFor(s.RESTConfig("tester"))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, accept string) []byte {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v: %s", path, response.Status, err, content)
		}
		return content
	}
	all := map[string]any{}
	object := func(path, accept string) {
		text := strings.ReplaceAll(string(get(path, accept)), strings.TrimPrefix(s.URL(), "https://127.0.0.1"), ":PORT")
		var content map[string]any
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[path+" "+accept] = content
	}
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	object("/", "application/json")
	object("/api", "application/json")
	object("/api", aggregated)
	object("/apis", "application/json")
	object("/apis", aggregated)
	object("/openapi/v2", "application/json")
	object("/openapi/v3", "application/json")
	for name, of := range all["/openapi/v3 application/json"].(map[string]any)["paths"].(map[string]any) {
		at := of.(map[string]any)["serverRelativeURL"].(string)
		all["document "+name] = sha256.Sum256(get(at, "application/json"))
		of.(map[string]any)["serverRelativeURL"], _, _ = strings.Cut(at, "=") // upstream's hash is that of the content
	}
	all["managers of an Event"] = eventManagers(t, s)
	for _, path := range all["/ application/json"].(map[string]any)["paths"].([]any) {
		if p := path.(string); strings.Count(p, "/") == 3 && strings.HasPrefix(p, "/apis/") || p == "/api/v1" {
			object(p, "application/json")
		}
	}
	var services apiregistrationv1.APIServiceList
	if err := json.Unmarshal(get("/apis/apiregistration.k8s.io/v1/apiservices", "application/json"), &services); err != nil {
		t.Fatal(err)
	}
	for _, of := range services.Items {
		all["priorities of "+of.Name] = of.Spec
	}
	checks := strings.Split(string(get("/readyz?verbose=true", "text/plain")), "\n")
	slices.Sort(checks)
	all["/readyz"] = checks
	return all
}

// TestServersOfUpstream: our servers serve exactly what those of kube-apiserver do: the same resources, of all versions
// that --runtime-config can switch on, with the same priorities, the same documents and the same checks, and the same managers of
// an Event, which has two API groups. A write needs fewer allocations (typeConverter).
func TestServersOfUpstream(t *testing.T) {
	serve := func() (all map[string]any, allocations float64) {
		s, err := apiserver.Start(t.Context(), apiserver.Options{
			Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, WatchCache: true,
			Settings: apiserver.Settings{RuntimeConfig: []string{"api/all=true"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		if err := s.Ready(context.Background()); err != nil {
			t.Fatal(err)
		}
		return answers(t, s), updateAllocations(t, s)
	}
	restore := apiserver.UseUpstreamServers()
	defer restore()
	want, before := serve()
	restore()
	got, after := serve()
	if len(want) < 30 {
		t.Errorf("only %d answers", len(want))
	}
	for path, content := range want {
		if d := cmp.Diff(content, got[path]); d != "" {
			t.Errorf("%s (-upstream +ours):\n%.2000s", path, d)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d answers, want %d", len(got), len(want))
	}
	t.Logf("%d answers; allocations of an update: %.0f, upstream %.0f", len(want), after, before)
	if after > 0.8*before {
		t.Errorf("the update of a pod needs %.0f allocations, upstream %.0f", after, before)
	}
}

// updateAllocations returns the number of allocations of the update of a pod with eight managers.
func updateAllocations(t *testing.T, s *apiserver.Server) float64 {
	t.Helper()
	pods := client(t, s).CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "managed", Annotations: map[string]string{}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}}}}
	_, err := client(t, s).CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err == nil {
		pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	update := func() {
		n++
		manager := fmt.Sprint("m", n%8)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, manager, fmt.Sprint(n))
		var err error
		if pod, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{FieldManager: manager}); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		update()
	}
	return testing.AllocsPerRun(300, update)
}

// eventManagers returns the managers of an Event that was created in one API group and updated in another.
func eventManagers(t *testing.T, s *apiserver.Server) (managers []string) {
	t.Helper()
	c := client(t, s)
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, EventTime: metav1.NowMicro(), Action: "Test", Reason: "Test", Type: "Normal",
		ReportingController: "example.com/a", ReportingInstance: "a", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "a"},
	}
	if _, err := c.EventsV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{FieldManager: "creator"}); err != nil {
		t.Fatal(err)
	}
	is, err := c.CoreV1().Events("default").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{FieldManager: "annotator"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range is.ManagedFields {
		managers = append(managers, m.Manager+" "+m.APIVersion)
	}
	return managers
}
