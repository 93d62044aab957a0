// Package kubeconfig adds the entries of one cluster to a user's kubeconfig and removes exactly these entries.
//
// It edits the YAML tree instead of decoding and encoding a Config, so comments, unknown fields and the order
// of other entries are preserved. Every change happens under the lock file that kubectl uses as well, and
// the file is replaced by a rename: a reader sees the old or the new contents, and a full disk or a
// kill leaves the old file. Entries have a mark (a named extension); entries without the mark are never changed.
//
// It is not a general kubeconfig library: it neither resolves credentials nor builds clients.
//
// Floor: F4, a part of internal/cli.
package kubeconfig
