package useractions_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// change returns a change from its words: AFTER METHOD [GROUP/]VERSION/RESOURCE NAMESPACE/NAME [MANAGER].
func change(t *testing.T, document int, words []string, body string) snapshot.Change {
	t.Helper()
	after, err := time.ParseDuration(words[0])
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(words[2], "/")
	if len(parts) == 2 {
		parts = append([]string{""}, parts...)
	}
	c := snapshot.Change{
		Document: document, After: after, Method: snapshot.Method(words[1]),
		Resource: schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]},
	}
	c.Namespace, c.Name, _ = strings.Cut(words[3], "/")
	if len(words) > 4 {
		c.Manager = words[4]
	}
	if body != "" {
		c.Template = decode(t, body)
	}
	return c
}
