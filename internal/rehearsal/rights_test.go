//go:build unix

package rehearsal

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// limitedScenario is copyScenario with the rights to read, and one more verb.
var limitedScenario = strings.NewReplacer(
	"clients: [{name: copier}]", "clients: [{name: copier, as: AS}]",
	"controllers: []", `controllers: [], objects: [
    {object: {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: copier, namespace: default}, rules: [
      {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}, {apiGroups: [""], resources: [secrets], verbs: [VERB]}]}},
    {object: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: copier, namespace: default},
      roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: copier}, subjects: [SUBJECT]}}]`,
).Replace(copyScenario)

// TestRights: a client has the rights of the ServiceAccount or the user that the scenario names, and no
// others, in process and in an external cluster.
func TestRights(t *testing.T) {
	t.Setenv("LIVE_TEST_CLIENT", "yes")
	target, _ := existingCluster(t)
	for where, config := range map[string]*rest.Config{"in process": nil, "in a cluster": target} {
		for who, c := range map[string]struct{ as, subject string }{
			"an account": {"{serviceAccount: default/copier}", "{kind: ServiceAccount, name: copier, namespace: default}"},
			"a user":     {"{user: jane}", "{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}"},
			"a group":    {"{user: joe, groups: [team]}", "{kind: Group, name: team, apiGroup: rbac.authorization.k8s.io}"},
		} {
			if testing.Short() && who != "an account" {
				continue // the identities differ in nothing that is concurrent
			}
			for verb, code := range map[string]int{"create": http.StatusCreated, "get": http.StatusForbidden} {
				t.Run(fmt.Sprintf("%s, %s, %s", where, who, verb), func(t *testing.T) {
					text := strings.NewReplacer("AS", c.as, "VERB", verb, "SUBJECT", c.subject).Replace(limitedScenario)
					s, err := scenario.Read("copies.yaml", []byte(text), nil)
					if err == nil {
						err = s.SetCommand([]string{os.Args[0]})
					}
					if err != nil {
						t.Fatal(err)
					}
					a, err := Open(t.Context(), Options{Scenario: s, Dir: filepath.Join(t.TempDir(), "harness"), Target: config})
					if err != nil {
						t.Fatal(err)
					}
					defer func() {
						if err := a.Close(); err != nil {
							t.Error(err)
						}
					}()
					a.timeouts.quiet, a.timeouts.end = 100*time.Millisecond, time.Second
					s.Steps[1].Within = time.Second
					run := play(t, a)
					got := 0
					for i := range run.Steps {
						if step := &run.Steps[i]; step.Actor == "copier" && step.Verb == "create" && step.Kind == history.Request && step.Code != 0 {
							got = step.Code
						}
					}
					if got != code {
						t.Errorf("create: %d, want %d; %+v", got, code, run.Failure)
					}
				})
			}
		}
	}
}

// counted counts list requests by their limit.
type counted struct {
	http.RoundTripper
	mu    *sync.Mutex
	lists map[string]int
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps") && r.URL.Query().Get("watch") == "" {
		c.mu.Lock()
		c.lists[r.URL.Query().Get("limit")]++
		c.mu.Unlock()
	}
	return c.RoundTripper.RoundTrip(r)
}

// TestPages: the harness reads a cluster in pages, with a limited request rate.
func TestPages(t *testing.T) {
	config, client := existingCluster(t)
	const many = 1100
	for i := range many {
		create(t, client.CoreV1().ConfigMaps("elsewhere").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i)}})
	}
	c := counted{mu: &sync.Mutex{}, lists: map[string]int{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.RoundTripper = next
		return c
	})
	a, err := openExternal(t, config, copyScenario)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	if len(c.lists) != 1 || c.lists["500"] != 3 {
		t.Errorf("lists of ConfigMaps by their limit: %v", c.lists)
	}
	g, ok := a.environment.(*externalCluster)
	if !ok || !g.mirror.has("/configmaps/elsewhere/many-0") || !g.mirror.has(fmt.Sprintf("/configmaps/elsewhere/many-%d", many-1)) {
		t.Error("not all was read")
	}
	if one, other := g.config("one").RateLimiter, g.config("other").RateLimiter; one != other || one.QPS() != DefaultQPS {
		t.Errorf("%v and %v", one, other)
	}
}
