-- Episodes of IncidentOps, schema version 1. Times are ticks (simulated minutes after the page).
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE episodes (
  id TEXT PRIMARY KEY, scenario TEXT NOT NULL, level TEXT NOT NULL, seed INTEGER NOT NULL, incident_id TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'finished')), tick INTEGER NOT NULL, steps INTEGER NOT NULL,
  dynamics TEXT NOT NULL, -- effect levels, last errors, alert streaks, ledger
  reward_sum REAL NOT NULL, score TEXT, number INTEGER NOT NULL UNIQUE
) WITHOUT ROWID;
CREATE INDEX by_number ON episodes (status, number);
CREATE TABLE dependencies (episode INTEGER, caller TEXT, callee TEXT, share REAL, PRIMARY KEY (episode, caller, callee))
  WITHOUT ROWID;
CREATE TABLE services (episode INTEGER, name TEXT, version TEXT, restarting INTEGER, crashed INTEGER, restarts INTEGER,
  rolled_back TEXT, broken TEXT, PRIMARY KEY (episode, name)) WITHOUT ROWID;
CREATE TABLE config (episode INTEGER, service TEXT, key TEXT, stored TEXT, running TEXT, declared TEXT,
  PRIMARY KEY (episode, service, key)) WITHOUT ROWID;
CREATE VIEW flags AS SELECT episode, service, substr(key, 7) AS flag, running FROM config WHERE key LIKE 'flags.%';
CREATE TABLE deploys (episode INTEGER, service TEXT, n INTEGER, version TEXT, previous TEXT, author TEXT, tick INTEGER,
  summary TEXT, diff TEXT, config TEXT, PRIMARY KEY (episode, service, n)) WITHOUT ROWID;
CREATE TABLE logs (episode INTEGER, n INTEGER, tick INTEGER, second INTEGER, service TEXT, level TEXT, text TEXT,
  clue INTEGER, PRIMARY KEY (episode, n)) WITHOUT ROWID;
CREATE TABLE metrics (episode INTEGER, tick INTEGER, service TEXT, rps REAL, error REAL, p95_ms REAL, cpu_pct REAL,
  memory_mb REAL, disk_pct REAL, queue REAL, lag_s REAL, connections REAL, connection_limit INTEGER,
  PRIMARY KEY (episode, tick, service)) WITHOUT ROWID;
CREATE TABLE alerts (episode INTEGER, n INTEGER, service TEXT, rule TEXT, severity TEXT, state TEXT, since INTEGER,
  until INTEGER, text TEXT, PRIMARY KEY (episode, n)) WITHOUT ROWID;
CREATE TABLE changes (episode INTEGER, n INTEGER, tick INTEGER, service TEXT, text TEXT, PRIMARY KEY (episode, n))
  WITHOUT ROWID;
CREATE TABLE actions (episode INTEGER, step INTEGER, tool TEXT, arguments TEXT, result TEXT, error TEXT, reward REAL,
  parts TEXT, done INTEGER, PRIMARY KEY (episode, step)) WITHOUT ROWID;
