package cli

import "github.com/spf13/cobra"

// topics are the help texts that belong to no command: `rehearse help exit-codes`.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "exit-codes",
			Short: "What the exit codes mean",
			Long: `Exit codes of every command but kubectl, which has its own:

  0    it worked: what was asked for is so, even if there was nothing to do
  1    it failed: the line on stderr says what and why
  2    usage: the command line or a value in it cannot be right
  3    nothing can be concluded: a file holds no whole record of a run, or a client cannot be rehearsed
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; 'up' in the foreground and 'simulate'
       always end this way, because they run until they are interrupted`,
		},
		{
			Use:   "environment",
			Short: "Environment variables that are read",
			Long: `Environment variables:

  REHEARSE_NAME    the cluster's name where --name is not given (default: rehearse)
  KUBECONFIG       the kubeconfig files, as kubectl reads and writes them
  HOME             ~/.kube/config, and ~/.local/state/rehearse for running clusters
  XDG_STATE_HOME   takes the place of ~/.local/state
  TERM             "dumb": no progress line, no colours
  NO_COLOR         if it is set: no colours`,
		},
	}
}
