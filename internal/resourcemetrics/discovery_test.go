package resourcemetrics

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// TestNodeInPath: the path of a scrape names the node.
func TestNodeInPath(t *testing.T) {
	for _, c := range []struct{ template, path, node string }{
		{"/metrics/nodes/{nodeName}/shop", "/metrics/nodes/a/shop", "a"},
		{"/metrics/nodes/{nodeName}/shop", "/metrics/nodes/a/b/shop", ""},
		{"/metrics/nodes/{nodeName}/shop", "/metrics/nodes//shop", ""},
		{"/metrics/nodes/{nodeName}/shop", "/metrics/nodes/a/other", ""},
		{"/metrics/{nodeName}", "/metrics/a", "a"},
		{"/metrics/x-{nodeName}-y/z", "/metrics/x-a-y/z", "a"},
		{"/metrics/{nodeName}-y/{nodeName}", "/metrics/a-y/a", "a"},
		{"/metrics/{nodeName}-y/{nodeName}", "/metrics/a-y/b", ""},
		{"/metrics/shop", "/metrics/shop", "object"},
		{"/metrics/shop", "/metrics/other", ""},
	} {
		node, ok := nodeInPath(rules.Metric{Name: "object", Spec: v1alpha1.MetricSpec{Path: c.template}}, c.path)
		if ok != (c.node != "") || ok && node != c.node {
			t.Errorf("%s at %s: got %q, %v, want %q", c.path, c.template, node, ok, c.node)
		}
	}
}
