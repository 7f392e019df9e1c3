// Command load plays the users: it reads a spec and commands from standard input and reports on standard output.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"apps/internal/load"
)

func main() {
	file := flag.String("spec", "", "file with the spec; without it the first line of standard input is the spec")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := run(ctx, *file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(ctx context.Context, file string) error {
	input := bufio.NewReader(os.Stdin)
	var raw []byte
	var err error
	if file != "" {
		raw, err = os.ReadFile(file)
	} else {
		raw, err = input.ReadBytes('\n')
	}
	if err != nil && len(raw) == 0 {
		return fmt.Errorf("read spec: %w", err)
	}
	spec, err := load.ParseSpec(raw)
	if err != nil {
		return err
	}
	commands := make(chan load.Command)
	go load.ReadCommands(input, commands, file == "")
	return load.Run(ctx, spec, commands, os.Stdout)
}
