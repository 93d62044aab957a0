// Package kubeconfig puts one cluster's entries into a user's kubeconfig and takes exactly those out again.
//
// It edits the YAML tree instead of decoding and encoding a Config, so comments, unknown fields and the order
// of other people's entries survive. Every change happens under the lock file that kubectl uses as well, and
// the file is replaced by a rename, so that a reader sees the old bytes or the new ones and a full disk or
// a kill leaves the old file. Entries carry a mark (a named extension); what has no mark is never touched.
//
// It is not a general kubeconfig library: it neither resolves credentials nor builds clients.
//
// Floor: F4, a part of internal/cli.
package kubeconfig
