package history_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestConceal checks that confidential values are replaced wherever they occur, and that all other
// values stay.
func TestConceal(t *testing.T) {
	const secret = "hunter2"
	for resource, text := range map[string]string{
		"configmaps":               `{"metadata":{"name":"keep"},"data":{"keep":"hunter2"},"binaryData":{"keep":"hunter2"}}`,
		"pods":                     `{"spec":{"containers":[{"image":"keep","env":[{"name":"keep","value":"hunter2"},{"name":"keep","valueFrom":{"keep":"x"}}],"args":["keep","--password=hunter2","--token","hunter2"]}]}}`,
		"jobs.batch":               `{"spec":{"template":{"spec":{"initContainers":[{"command":["keep","-c","mysql://root:hunter2@db; export API_KEY=hunter2"],"env":[{"name":"keep","value":"hunter2"}]}]}}}}`,
		"controllerrevisions.apps": `{"data":{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"keep","value":"hunter2"}]}]}}}}}`,
		"webs.example.com":         `{"spec":{"keep":{"env":[{"name":"keep","value":"hunter2"}]}}}`,
	} {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(history.Conceal(history.Object{Resource: resource}, object))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(data); strings.Contains(got, secret) || strings.Count(got, "keep") != strings.Count(text, "keep") {
			t.Errorf("%s: %s", resource, got)
		}
		if data, _ := json.Marshal(object); strings.Count(string(data), secret) != strings.Count(text, secret) {
			t.Errorf("%s: the object itself was changed", resource)
		}
	}
}

// TestConcealArguments checks that what looks like a secret is replaced, and nothing else.
func TestConcealArguments(t *testing.T) {
	hide := []string{
		"--password=hunter2", "-db-password=hunter2", "PGPASSWORD=hunter2", "--api-key=hunter2", "--auth.token: hunter2", "--header=Authorization: Bearer hunter2hunter2",
		"https://user:hunter2@example.com/x", "eyJhbGciOiJI.eyJzdWIi.hunter2", `{"clientSecret":"hunter2"}`, "--dsn='hunter2 hunter2'", "curl -H 'Authorization: Basic hunter2hunter2'",
	}
	for _, arg := range hide {
		if got := history.ConcealArguments([]string{arg}); strings.Contains(got[0], "hunter2") || !strings.Contains(got[0], history.Hidden) {
			t.Errorf("%s: %s", arg, got[0])
		}
	}
	if got := history.ConcealArguments([]string{"--token", "hunter2", "--token", "--verbose", "x"}); !slices.Equal(got, []string{"--token", history.Hidden, "--token", "--verbose", "x"}) {
		t.Errorf("%q", got)
	}
	keep := []string{"bin/manager", "--leader-elect=false", "--metrics-bind-address=127.0.0.1:{{port:metrics}}", "--kubeconfig={{kubeconfig}}", "https://example.com:443/x", "-v=4", "https://{{name}}/a@b"}
	if got := history.ConcealArguments(keep); !slices.Equal(got, keep) {
		t.Errorf("%q", got)
	}
}
