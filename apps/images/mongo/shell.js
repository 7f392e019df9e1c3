require('@mongosh/cli-repl/lib/run');
