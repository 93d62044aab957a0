package cli

import "github.com/spf13/cobra"

// topics are help texts that belong to no command, such as `rehearse help exit-codes`.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "exit-codes",
			Short: "What the exit codes mean",
			Long: `Exit codes of all commands except kubectl, which has its own:

  0    success, also if there was nothing to do; for 'test': every invariant held
  1    failure: the line on stderr has the reason; for 'test': an invariant was violated
  2    usage: the command line or a value in it is invalid
  3    inconclusive: the record of a run or a snapshot is incomplete, or the client under test
       does not work
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; 'up' in the foreground and 'simulate'
       always exit with 130, because they run until they are interrupted`,
		},
		{
			Use:   "environment",
			Short: "Environment variables that rehearse reads",
			Long: `Environment variables:

  REHEARSE_NAME    the cluster's name if --name is not given (default: rehearse)
  KUBECONFIG       the kubeconfig files, as for kubectl
  HOME             contains .kube/config, and .local/state/rehearse for running clusters
  XDG_STATE_HOME   replaces ~/.local/state
  TERM             "dumb" disables progress lines and colours
  NO_COLOR         disables colours if it is set`,
		},
	}
}
