// kube is every Kubernetes program in one binary, so that the large libraries they share are compiled, linked and
// stored once. It acts as the program whose name it is called by, or as its first argument says.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of every component
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const ownName = "kube"

var programs = map[string]func() int{
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              command(proxy.NewProxyCommand),
	"kubectl":                 command(func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() }),
	// The kubelet sets up its own signal handler and panics if there is one already: a plain context.
	"kubelet": command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubeadm": func() int {
		if kubeadm.Run() != nil { // it has printed the error
			return 1
		}
		return 0
	},
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == ownName && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = filepath.Base(os.Args[0])
	}
	run, known := programs[name]
	if !known {
		names := strings.Join(slices.Sorted(maps.Keys(programs)), " ")
		fmt.Fprintf(os.Stderr, "%s: no such program; there are: %s\n", name, names)
		os.Exit(2)
	}
	os.Exit(run())
}

func command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}
