package kubecontrollers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

// parts is what most controllers are built from.
type parts struct {
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

// runner is a controller that has been built.
type runner interface {
	Run(ctx context.Context, workers int)
}

// run builds a controller and runs it until ctx ends and its goroutines have returned.
func run(ctx context.Context, config *rest.Config, build func(parts) (runner, error)) error {
	client, err := kubernetes.NewForConfig(withoutEvents(config))
	if err != nil {
		return err
	}
	p := parts{client: client, informers: informers.NewSharedInformerFactory(client, 0)}
	c, err := build(p)
	if err != nil {
		return err
	}
	p.informers.Start(ctx.Done())
	defer p.informers.Shutdown()
	c.Run(ctx, 1)
	return nil
}

// ReplicaSet manages the pods of ReplicaSets.
func ReplicaSet(ctx context.Context, config *rest.Config) error {
	return run(ctx, config, func(p parts) (runner, error) {
		apps, core := p.informers.Apps().V1(), p.informers.Core().V1()
		return replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), p.client, replicaset.BurstReplicas), nil
	})
}

// Deployment manages the ReplicaSets of Deployments.
func Deployment(ctx context.Context, config *rest.Config) error {
	return run(ctx, config, func(p parts) (runner, error) {
		apps, core := p.informers.Apps().V1(), p.informers.Core().V1()
		return deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), p.client)
	})
}

// StatefulSet manages the pods and volume claims of StatefulSets.
func StatefulSet(ctx context.Context, config *rest.Config) error {
	return run(ctx, config, func(p parts) (runner, error) {
		apps, core := p.informers.Apps().V1(), p.informers.Core().V1()
		return statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), p.client), nil
	})
}

// Job manages the pods of Jobs.
func Job(ctx context.Context, config *rest.Config) error {
	return run(ctx, config, func(p parts) (runner, error) {
		// The last two informers are for a feature that is off by default.
		return job.NewController(ctx, p.client, p.informers.Core().V1().Pods(), p.informers.Batch().V1().Jobs(), nil, nil)
	})
}

// maxEndpoints is upstream's default for the maximum number of endpoints in an EndpointSlice.
const maxEndpoints = 100

// EndpointSlice manages the EndpointSlices of Services.
func EndpointSlice(ctx context.Context, config *rest.Config) error {
	return run(ctx, config, func(p parts) (runner, error) {
		core := p.informers.Core().V1()
		return endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(),
			p.informers.Discovery().V1().EndpointSlices(), maxEndpoints, p.client, 0), nil
	})
}

// period is how often controllers repeat discovery and full resyncs. It is longer than a run: no
// resources are added during a run, and a resync would hide a missed event, which a test must find.
const period = 12 * time.Hour

// withoutEvents returns a configuration whose client answers writes of Events itself.
func withoutEvents(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return eventsNowhere{next} })
	return config
}

type eventsNowhere struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e eventsNowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	isEvent := strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/")
	if !isEvent || r.Method == http.MethodGet {
		return e.next.RoundTrip(r)
	}
	// Echo the request as the stored Event.
	return &http.Response{
		Status: http.StatusText(http.StatusCreated), StatusCode: http.StatusCreated, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": r.Header["Content-Type"]}, Body: r.Body, ContentLength: r.ContentLength, Request: r,
	}, nil
}
