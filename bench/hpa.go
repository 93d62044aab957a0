package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// autoscalers are the HorizontalPodAutoscalers to measure.
type autoscalers struct {
	load

	count  int
	period time.Duration // --hpa-sync-period of `up`
	rest   time.Duration
}

func hpaCommand(binary *string, out *figures) *cobra.Command {
	a := autoscalers{load: load{out: out}}
	c := &cobra.Command{
		Use:   "hpa [-- UP-FLAGS]",
		Short: "Measure what the HorizontalPodAutoscalers of a cluster use, without any change of scale",
		RunE: func(cmd *cobra.Command, args []string) error {
			a.args = append([]string{"--hpa-sync-period", a.period.String()}, args...)
			return a.measure(cmd.Context(), binary)
		},
	}
	a.addFlags(c, 100, 1000, 16)
	c.Flags().IntVar(&a.count, "autoscalers", 100, "HorizontalPodAutoscalers, each with a Deployment of its own; all pods are in one namespace")
	c.Flags().DurationVar(&a.period, "period", time.Second, "--hpa-sync-period of the cluster")
	c.Flags().DurationVar(&a.rest, "rest", 30*time.Second, "how long to measure without and with the autoscalers")
	return c
}

// measure compares an idle cluster with the same cluster after its autoscalers were created.
func (a autoscalers) measure(ctx context.Context, binary *string) error {
	if a.count < 1 || a.pods < a.count {
		return fmt.Errorf("flags --autoscalers and --pods: want at least one autoscaler, and a pod for each")
	}
	s, client, err := a.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := a.deploy(ctx, client); err != nil {
		return err
	}
	_, _, without, err := a.measureIdle(ctx, s, client)
	if err != nil {
		return err
	}
	err = a.each(ctx, a.count, func(ctx context.Context, i int) error {
		_, err := client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(ctx, a.autoscaler(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := pause(ctx, 2*a.period); err != nil { // their first syncs write the status
		return err
	}
	syncs, took, with, err := a.measureIdle(ctx, s, client)
	if err != nil {
		return err
	}
	if syncs == 0 {
		return fmt.Errorf("no autoscaler was synced within %s", a.rest)
	}
	n := time.Duration(syncs)
	a.out.add(fmt.Sprintf("%d autoscalers, %d pods on %d nodes", a.count, a.pods, a.nodes),
		"%.0f syncs/s; CPU of the server for each sync %.2f ms; duration of a sync %.2f ms; the server used %.1f %% of a core before and %.1f %% after",
		float64(syncs)/a.rest.Seconds(), ms((with-without)/n), ms(took/n), 100*without.Seconds()/a.rest.Seconds(), 100*with.Seconds()/a.rest.Seconds())
	return nil
}

// measureIdle returns the number of syncs of autoscalers within a.rest, their duration, and the CPU that the server used.
func (a autoscalers) measureIdle(ctx context.Context, s *server, client kubernetes.Interface) (syncs uint64, took, cpu time.Duration, err error) {
	syncsBefore, tookBefore, err := syncsOf(ctx, client)
	if err != nil {
		return 0, 0, 0, err
	}
	before := s.use()
	if err := pause(ctx, a.rest); err != nil {
		return 0, 0, 0, err
	}
	cpu = s.use().cpu - before.cpu
	syncs, took, err = syncsOf(ctx, client)
	return syncs - syncsBefore, took - tookBefore, cpu, err
}

// syncsOf reads the number and the duration of the syncs of autoscalers since the start.
func syncsOf(ctx context.Context, client kubernetes.Interface) (syncs uint64, took time.Duration, err error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, 0, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return 0, 0, err
	}
	for _, m := range families["horizontal_pod_autoscaler_controller_reconciliation_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		syncs += h.GetSampleCount()
		took += time.Duration(h.GetSampleSum() * float64(time.Second))
	}
	return syncs, took, nil
}

// deploy creates the Deployments, and waits until all pods are Running.
func (a autoscalers) deploy(ctx context.Context, client kubernetes.Interface) error {
	return a.untilRunning(ctx, client, a.count, a.count*int(a.replicas()), func(ctx context.Context, i int) error {
		_, err := client.AppsV1().Deployments("default").Create(ctx, a.deployment(i), metav1.CreateOptions{})
		return err
	})
}

func (a autoscalers) replicas() int32 { return int32(a.pods / a.count) }

func (a autoscalers) deployment(i int) *appsv1.Deployment {
	labels := map[string]string{"app": fmt.Sprintf("web-%d", i)}
	replicas := a.replicas()
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: labels["app"]},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
				}}},
			},
		},
	}
}

// autoscaler is one that finds too little usage and already has its minimum, so it writes nothing.
func (a autoscalers) autoscaler(i int) *autoscalingv2.HorizontalPodAutoscaler {
	name, replicas, percent := fmt.Sprintf("web-%d", i), a.replicas(), int32(50)
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas:    &replicas,
			MaxReplicas:    10 * replicas,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			}}},
		},
	}
}
