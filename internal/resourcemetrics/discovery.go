package resourcemetrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// targets is one entry of a list for Prometheus (configuration of Prometheus, http_sd_config).
type targets struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// ServeDiscovery lists the paths of all Metric objects, one entry for each simulated node, in the format of KWOK's /discovery/prometheus.
// The entries lead to the address of the request. If the API server has forwarded the request, their paths are those of its proxy.
//
// A path without {nodeName} names no node. So without the API server's proxy it has one entry, for the node with the name of the object, as
// in KWOK, and only if that node exists.
func (s *Source) ServeDiscovery(w http.ResponseWriter, r *http.Request) {
	list, err := s.discover(r.Context(), r.Host, r.Header.Get("X-Forwarded-Uri") != "")
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the client has left
}

func (s *Source) discover(ctx context.Context, host string, forwarded bool) ([]targets, error) {
	r, err := s.newRequest(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := r.allMetrics(s.options.Rules.Metrics)
	if err != nil {
		return nil, err
	}
	nodes, err := r.clients.core.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := []targets{} // an empty list, not null
	for _, m := range objects {
		for i := range nodes.Items {
			node := nodes.Items[i].Name
			path := strings.ReplaceAll(m.Spec.Path, usage.NodeNameInPath, node)
			switch {
			case !s.options.Serves(&nodes.Items[i]):
				continue
			case forwarded:
				path = "/api/v1/nodes/" + node + "/proxy" + path
			case path == m.Spec.Path && node != m.Name:
				continue
			}
			all = append(all, targets{[]string{host}, map[string]string{"metrics_name": m.Name, "__scheme__": "https", "__metrics_path__": path}})
		}
	}
	return all, nil
}

// NodeOfPath returns the node that a path of a Metric object names: the text in the place of {nodeName}, else the name of the object, as in
// KWOK.
func (s *Source) NodeOfPath(ctx context.Context, path string) (string, error) {
	if !strings.HasPrefix(path, "/metrics") { // no Metric can have it
		return "", fmt.Errorf("%s: no API server has forwarded the request with the name of a node", path)
	}
	r, err := s.newRequest(ctx)
	if err != nil {
		return "", err
	}
	objects, err := r.allMetrics(s.options.Rules.Metrics)
	if err != nil {
		return "", err
	}
	for _, m := range objects {
		if node, ok := nodeInPath(m, path); ok {
			return node, nil
		}
	}
	return "", fmt.Errorf("%s: no Metric object has this path, and no API server has forwarded the request with the name of a node", path)
}

// nodeInPath returns the node of a path that belongs to a Metric. The name of a node contains no slash.
func nodeInPath(m rules.Metric, path string) (node string, ok bool) {
	before, after, named := strings.Cut(m.Spec.Path, usage.NodeNameInPath)
	if !named {
		return m.Name, path == m.Spec.Path
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	node, _, _ = strings.Cut(rest, "/")
	sameSegment, _, _ := strings.Cut(after, "/")
	node = strings.TrimSuffix(node, sameSegment)
	return node, node != "" && strings.ReplaceAll(m.Spec.Path, usage.NodeNameInPath, node) == path
}
