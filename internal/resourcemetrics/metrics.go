package resourcemetrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// reasonsShown is how many errors a response with metrics explains.
const reasonsShown = 5

// serveMetrics serves the Metric objects whose path a client requests.
func (s *Source) serveMetrics(w http.ResponseWriter, r *http.Request, node string) {
	families, errs, err := s.metrics(r.Context(), r.URL.Path, node)
	if err != nil {
		fail(w, err)
		return
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	w.Header().Set("Content-Type", string(format))
	_ = writeMetrics(w, format, families, errs) // the client has left
}

// writeMetrics writes families, and comments with the first errors.
func writeMetrics(w io.Writer, format expfmt.Format, families []*dto.MetricFamily, errs []error) error {
	e := expfmt.NewEncoder(w, format)
	for _, f := range families {
		if err := e.Encode(f); err != nil {
			return err
		}
	}
	for i, err := range errs {
		if i == reasonsShown {
			_, err := fmt.Fprintf(w, "# and %d more errors\n", len(errs)-i)
			return err
		}
		if _, err := fmt.Fprintf(w, "# error: %s\n", strings.Join(strings.Fields(err.Error()), " ")); err != nil {
			return err
		}
	}
	return nil
}

// metrics computes the metrics of a node at a path. Without a Metric for the path it returns a NotFound error.
func (s *Source) metrics(ctx context.Context, path, node string) ([]*dto.MetricFamily, []error, error) {
	r, err := s.begin(ctx, metav1.NamespaceAll, "")
	if err != nil {
		return nil, nil, err
	}
	objects, err := r.metricsAt(s.options.Rules.Metrics, path, node)
	if err != nil {
		return nil, nil, err
	}
	n, all, err := r.nodeAndPods(node)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retain(r, all)
	pods := sortedPodsOf(node, all)
	r.podsByNode = map[string][]*corev1.Pod{node: pods}
	families, errs := s.plan(r).Metrics(n, pods, objects)
	return families, errs, r.err
}

// allMetrics returns the Metric objects of files, then those of the API, the oldest first.
func (r *request) allMetrics(fromFiles []rules.Metric) ([]rules.Metric, error) {
	stored := &rules.Set{}
	items, err := r.list("metrics", "", metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if err := addOldestFirst(stored, items); err != nil {
		return nil, err
	}
	return slices.Concat(fromFiles, stored.Metrics), nil
}

// metricsAt returns the Metric objects with a path, in the order of allMetrics.
func (r *request) metricsAt(fromFiles []rules.Metric, path, node string) ([]usage.MetricObject, error) {
	all, err := r.allMetrics(fromFiles)
	if err != nil {
		return nil, err
	}
	var out []usage.MetricObject
	for _, m := range all {
		if strings.ReplaceAll(m.Spec.Path, usage.NodeNameInPath, node) == path {
			out = append(out, usage.MetricObject{Object: m, Metrics: m.Spec.Metrics})
		}
	}
	if len(out) == 0 {
		e := apierrors.NewNotFound(corev1.Resource("nodes"), node)
		e.ErrStatus.Message = fmt.Sprintf("no Metric object has the path %s for node %s", path, node)
		return nil, e
	}
	return out, nil
}
