package rehearsal

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// servedResources returns the resources that a real API server offers, by the name that kubectl has for them, with whether they
// are namespaced. Reviews are not objects: they are answers to a create.
func servedResources(t *testing.T) map[string]bool {
	t.Helper()
	s, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(s.RESTConfig("test"))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || strings.HasSuffix(r.Name, "reviews") {
				continue
			}
			name := r.Name
			if found {
				name += "." + group
			}
			out[name] = r.Namespaced
		}
	}
	return out
}

// TestServedResources: a scenario may name each resource of a real API server, and knows of each whether its objects
// are in a namespace: the default is filled in for those that are, and rejected for the others.
func TestServedResources(t *testing.T) {
	const head = "apiVersion: rehearse-k8s.github.io/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n" +
		"  clients: [{name: a}]\n  steps: [{delete: {resource: %s, name: %s}}]\n"
	resources := servedResources(t)
	if len(resources) < 40 {
		t.Fatalf("the API server offers %d resources", len(resources))
	}
	for name, namespaced := range resources {
		s, err := scenario.Read("s.yaml", fmt.Appendf(nil, head, name, "a"), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := ""
		if namespaced {
			want = metav1.NamespaceDefault
		}
		if got := s.Steps[0].On.Namespace; got != want {
			t.Errorf("%s: namespace %q, want %q: add it to the tables of scenario/resources.go", name, got, want)
		}
		_, err = scenario.Read("s.yaml", fmt.Appendf(nil, head, name, "a, namespace: b"), nil)
		if (err == nil) != namespaced {
			t.Errorf("%s in namespace b: %v", name, err)
		}
	}
}
