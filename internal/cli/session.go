package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/cli/kubeconfig"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/version"
)

// session is one cluster from the claim of its name to the removal of its traces.
type session struct {
	a      *app
	o      *upOptions
	target kubeconfig.Target
	dir    *statedir.Dir
	record statedir.Record
	log    *logFile
	logger *slog.Logger
	c      running
}

// openSession claims the name, clears up behind a dead holder, and opens the log.
func (a *app) openSession(o *upOptions, target kubeconfig.Target) (*session, error) {
	root, err := statedir.DefaultRoot(a.getenv)
	if err != nil {
		return nil, err
	}
	name := o.cluster.Name
	dir, stale, err := root.Claim(name)
	if err != nil {
		return nil, err
	}
	if stale != nil {
		a.mend(*stale)
	}
	s := &session{a: a, o: o, target: target, dir: dir, record: statedir.Self(name, a.now())}
	err = dir.Wipe()
	if err == nil {
		s.log, err = createLog(root.LogPath(name))
	}
	if err == nil {
		err = dir.Save(s.record)
	}
	if err != nil {
		_ = dir.Release(false)
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if a.Err == os.Stderr {
		a.Err = divertStderr(s.log.File)
	}
	s.logger = o.log.setUp(s.log, a.Err)
	s.catchFatal()
	return s, nil
}

// catchFatal makes the end visible when the Kubernetes code in this process calls klog.Fatal, which would
// otherwise be a line in a file that nobody looks at.
func (s *session) catchFatal() {
	klog.OsExit = func(int) {
		s.a.say("rehearse: cluster %q: the Kubernetes code ended the process; see %s", s.record.Name, s.log.Name())
		s.a.exit(exitFailed)
	}
}

// launch starts the cluster.
func (s *session) launch(ctx context.Context) error {
	p := s.a.newProgress()
	p.on = p.on && s.o.log.verbosity == 0
	p.show("Starting cluster %q ...", s.record.Name)
	defer p.clear()
	c, err := s.a.start(ctx, s.clusterOptions())
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		s.logger.Error("the cluster did not start", "err", err)
		return err
	}
	s.c = c
	return nil
}

// publish makes the cluster known: to this user's other commands first, so that a kill in between leaves a record
// of what has to be removed, then to kubectl.
func (s *session) publish() error {
	config := s.c.Kubeconfig()
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	if err := s.dir.WriteKubeconfig(data); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	r := &s.record
	r.Status = statedir.Running
	r.URL = s.c.URL()
	r.Context = contextName(r.Name)
	r.KubeconfigFiles = s.target.Files
	r.KubeconfigPath = s.target.Path
	r.DataDir = s.o.cluster.DataDir
	r.Stages = fullPaths(s.o.cluster.StageFiles)
	r.StageSums = sums(r.Stages)
	r.Version = version.Get().Version
	if err := s.dir.Save(*r); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return s.target.Merge(r.Context, config)
}

// wait ends with the user's wish, or with the cluster's own failure.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-s.c.Done():
		err := s.c.Err()
		if err == nil {
			err = errors.New("no reason was given")
		}
		s.logger.Error("the cluster ended by itself", "err", err)
		return fmt.Errorf("cluster %q ended by itself: %w (log: %s)", s.record.Name, err, s.log.Name())
	}
}

// withdraw takes the entries out of the kubeconfig, then stops the cluster: in this order a second Ctrl-C during
// the stop leaves only our own directory behind.
func (s *session) withdraw() {
	if err := s.target.Remove(contextName(s.record.Name), s.c.URL()); err != nil {
		s.a.say("rehearse: %s", message(err))
	}
	p := s.a.newProgress()
	p.show("Stopping cluster %q ... (Ctrl-C again ends it at once)", s.record.Name)
	s.c.Stop()
	p.clear()
}

// close gives the name back. The log of a cluster that failed stays.
func (s *session) close(err error) {
	failed := err != nil && !errors.Is(err, errInterrupted)
	_ = s.log.Close()
	if err := s.dir.Release(failed); err != nil {
		s.a.say("rehearse: state directory: %s", message(err))
	}
	if s.c != nil && !failed {
		s.a.say("Cluster %q has ended.", s.record.Name)
	}
}

// mend removes what a cluster that was killed left in a kubeconfig. It complains and goes on: a kubeconfig that cannot be
// read must not keep anyone from listing clusters.
func (a *app) mend(r statedir.Record) {
	t := kubeconfig.Target{Files: r.KubeconfigFiles, Path: r.KubeconfigPath}
	if r.PID == 0 { // its record was damaged: look where kubectl would
		var err error
		if t, err = kubeconfig.Find("", a.getenv); err != nil {
			return
		}
	}
	if t.Path == "" {
		return // it never came as far as to write one
	}
	if err := t.Remove(contextName(r.Name), r.URL); err != nil {
		a.say("rehearse: cluster %q was killed; its context could not be removed: %s", r.Name, message(err))
	}
}
