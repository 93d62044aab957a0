package cluster

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
)

// unfinishedSelector is the scheduler's selection of pods (pkg/scheduler, newPodInformer): finished pods use no resources of
// a node.
const unfinishedSelector = "status.phase!=Succeeded,status.phase!=Failed"

// unfinished is the same selection as a predicate.
func unfinished(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// schedulerSettings reads a KubeSchedulerConfiguration; an empty file name stands for the default one. What has no meaning in a
// cluster in one process (clientConnection, leaderElection and the addresses of endpoints) is ignored.
func schedulerSettings(file string) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	if file == "" {
		return latest.Default()
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, usage("--scheduler-config: %v", err)
	}
	o, kind, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, usage("--scheduler-config %s: %v", file, err)
	}
	settings, ok := o.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, usage("--scheduler-config %s: kind %s: want KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1", file, kind.Kind)
	}
	settings.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(settings); err != nil {
		return nil, usage("--scheduler-config %s: %v", file, err)
	}
	return settings, nil
}

// startScheduler prepares the real kube-scheduler and returns its run function.
func startScheduler(ctx context.Context, config *rest.Config, pods *podcache.Cache, settings *schedulerconfig.KubeSchedulerConfiguration) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	informers := scheduler.NewInformerFactory(pods.Client(client, unfinishedSelector, unfinished), 0)
	dynamicInformers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, "", nil)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	s, err := scheduler.New(ctx, client, informers, dynamicInformers, profile.NewRecorderFactory(broadcaster),
		scheduler.WithComponentConfigVersion(settings.APIVersion),
		scheduler.WithKubeConfig(config),
		scheduler.WithProfiles(settings.Profiles...),
		scheduler.WithExtenders(settings.Extenders...),
		scheduler.WithPercentageOfNodesToScore(settings.PercentageOfNodesToScore),
		scheduler.WithParallelism(settings.Parallelism),
		scheduler.WithPodInitialBackoffSeconds(settings.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(settings.PodMaxBackoffSeconds),
	)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler: %w", err)
	}
	return func(ctx context.Context) {
		broadcaster.StartRecordingToSink(ctx.Done())
		defer broadcaster.Shutdown()
		informers.Start(ctx.Done())
		dynamicInformers.Start(ctx.Done())
		defer informers.Shutdown()
		defer dynamicInformers.Shutdown()
		informers.WaitForCacheSync(ctx.Done())
		dynamicInformers.WaitForCacheSync(ctx.Done())
		if err := s.WaitForHandlersSync(ctx); err != nil {
			return // only when ctx has ended
		}
		s.Run(ctx)
	}, nil
}
