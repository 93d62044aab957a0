package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/gcpace"
)

// bareClusterCommand serves an API with a bare kubelet, which uses the in-process transport. It is
// `up` without everything that its pods do not need to become Ready and to be deleted. Hidden:
// `pods --bare` starts it.
func bareClusterCommand() *cobra.Command {
	var o cluster.Options
	var kubeconfig string
	c := &cobra.Command{
		Use: "bare-cluster", Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, end := context.WithCancel(cmd.Context())
			defer end()
			go gcpace.Run(ctx)
			apiserver.Quiet()
			var err error
			if o.StateDir, err = os.MkdirTemp("", "rehearse-bench-bare-"); err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(o.StateDir) }()
			running, err := cluster.Start(ctx, o)
			if err != nil {
				return err
			}
			defer running.Stop()
			b, err := newBare(running.RESTConfig(), true)
			if err != nil {
				return err
			}
			if err := clientcmd.WriteToFile(*running.Kubeconfig(), kubeconfig); err != nil {
				return err
			}
			return b.run(ctx)
		},
	}
	c.Flags().StringVar(&o.Name, "name", "bench", "")
	c.Flags().IntVar(&o.Nodes, "nodes", 0, "")
	c.Flags().StringSliceVar(&o.Controllers, "controllers", nil, "")
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "")
	return c
}

// bareEngineCommand is the bare kubelet in its own process, over TLS. Hidden: `stage --bare` starts
// it.
func bareEngineCommand() *cobra.Command {
	var kubeconfig string
	var leases bool
	c := &cobra.Command{
		Use: "bare-engine", Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			b, err := newBare(config, false)
			if err != nil {
				return err
			}
			if leases {
				return b.keepLeases(cmd.Context())
			}
			if err := b.readyNodes(cmd.Context()); err != nil {
				return err
			}
			return b.run(cmd.Context())
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "")
	c.Flags().BoolVar(&leases, "leases", false, "")
	return c
}

// bareWorkers is the maximum number of concurrent requests of the bare kubelet.
const bareWorkers = 32

// bare is a minimal simulation of a pod's lifecycle: it reads one watch, sends each pod that has a
// node one prepared status, and sends each deleted pod its last delete. It decides nothing, keeps
// no state and does not retry. The cost of an engine is what it costs more than this.
type bare struct {
	base  string
	round http.RoundTripper
	whole bool // the status is sent with the whole pod, which costs the server less and the client more
}

func newBare(config *rest.Config, whole bool) (*bare, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	round, err := rest.TransportFor(config)
	return &bare{base: strings.TrimRight(base.String(), "/"), round: round, whole: whole}, err
}

// run simulates pods until ctx ends.
func (b *bare) run(ctx context.Context) error {
	pods := make(chan *corev1.Pod, 20000)
	group, playing := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pods)
		return b.watch(playing, pods)
	})
	for range bareWorkers {
		group.Go(func() error {
			for pod := range pods {
				if err := b.play(playing, pod); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil // stopped by the caller
}

// watch reads pods and passes on those that need a request. It resumes a watch that the server
// ends.
func (b *bare) watch(ctx context.Context, pods chan<- *corev1.Pod) error {
	version := "0"
	for ctx.Err() == nil {
		answer, err := b.send(ctx, http.MethodGet, "/api/v1/pods?watch=true&resourceVersion="+version, "", nil)
		if err != nil {
			return err
		}
		frames := protobuf.LengthDelimitedFramer.NewFrameReader(answer)
		for buffer := make([]byte, 1<<20); ; {
			n, err := frames.Read(buffer)
			if err != nil {
				break
			}
			kind, pod, err := podEvent(buffer[:n])
			if err != nil {
				return err
			}
			version = pod.ResourceVersion
			if due(kind, pod) {
				pods <- pod
			}
		}
		_ = answer.Close()
	}
	return nil
}

// due reports whether the pod of a watch event needs a request: it has a node and does not run yet,
// or it was deleted.
func due(kind string, pod *corev1.Pod) bool {
	switch {
	case kind == "DELETED":
		return false
	case pod.DeletionTimestamp != nil:
		return *pod.DeletionGracePeriodSeconds > 0 // 0 follows the last delete
	}
	return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending
}

// podEvent reads one frame of a watch of pods in protobuf.
func podEvent(frame []byte) (kind string, pod *corev1.Pod, err error) {
	var event metav1.WatchEvent
	pod = &corev1.Pod{}
	if err = event.Unmarshal(frame); err != nil {
		return "", nil, err
	}
	var object runtime.Unknown
	if err = object.Unmarshal(bytes.TrimPrefix(event.Object.Raw, protobufPrefix)); err != nil {
		return "", nil, err
	}
	if object.Kind != "Pod" {
		return "", nil, fmt.Errorf("the watch of pods sent a %s (%s)", object.Kind, event.Type)
	}
	return event.Type, pod, pod.Unmarshal(object.Raw)
}

// play sends the one request that a pod needs.
func (b *bare) play(ctx context.Context, pod *corev1.Pod) error {
	path := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
	switch {
	case pod.DeletionTimestamp != nil:
		return b.write(ctx, http.MethodDelete, path+"?gracePeriodSeconds=0", "", nil)
	case !b.whole:
		return b.write(ctx, http.MethodPatch, path+"/status", string(types.StrategicMergePatchType), bareStatus)
	}
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.PodIP, pod.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
	pod.Status.HostIP, pod.Status.HostIPs = "10.1.0.1", []corev1.HostIP{{IP: "10.1.0.1"}}
	pod.Status.Conditions = nil
	for _, c := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled", "Ready"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: "nginx", ImageID: "nginx", ContainerID: "bare://0", Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	body, err := encode("v1", "Pod", pod)
	if err != nil {
		return err
	}
	return b.write(ctx, http.MethodPut, path+"/status", runtime.ContentTypeProtobuf, body)
}

// bareStatus is the status that every pod gets.
var bareStatus = []byte(`{"status":{"phase":"Running","startTime":"2026-11-23T00:00:00Z","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"hostIP":"10.1.0.1","hostIPs":[{"ip":"10.1.0.1"}],` +
	`"conditions":[{"type":"PodReadyToStartContainers","status":"True"},{"type":"Initialized","status":"True"},{"type":"ContainersReady","status":"True"},{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}],` +
	`"containerStatuses":[{"name":"main","image":"nginx","imageID":"nginx","containerID":"bare://0","ready":true,"started":true,"restartCount":0,"state":{"running":{"startedAt":"2026-11-23T00:00:00Z"}}}]}}`)

// readyNodes makes all existing nodes Ready, once.
func (b *bare) readyNodes(ctx context.Context) error {
	nodes, err := b.listNodes(ctx)
	ready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Bare"}]}}`)
	for i := range nodes {
		if err = b.write(ctx, http.MethodPatch, "/api/v1/nodes/"+nodes[i].Name+"/status", string(types.StrategicMergePatchType), ready); err != nil {
			return err
		}
	}
	return err
}

func (b *bare) listNodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	err := b.read(ctx, http.MethodGet, "/api/v1/nodes", nil, &list)
	return list.Items, err
}

// read sends a request with a protobuf body, and decodes the answer.
func (b *bare) read(ctx context.Context, method, path string, body []byte, into interface{ Unmarshal([]byte) error }) error {
	answer, err := b.send(ctx, method, path, runtime.ContentTypeProtobuf, body)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer)
	_ = answer.Close()
	if err != nil {
		return err
	}
	return decode(text, into)
}

// write sends a request and discards the answer.
func (b *bare) write(ctx context.Context, method, path string, encoding string, body []byte) error {
	answer, err := b.send(ctx, method, path, encoding, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer)
	_ = answer.Close()
	return err
}

// send sends a request and returns the body of the answer.
func (b *bare) send(ctx context.Context, method, path string, encoding string, body []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", runtime.ContentTypeProtobuf)
	if encoding != "" {
		request.Header.Set("Content-Type", encoding)
	}
	answer, err := b.round.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %q", method, path, answer.Status, text)
	}
	return answer.Body, nil
}
