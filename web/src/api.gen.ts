// Written by scripts/api_types.py of the OpenAPI description. Change the vocabulary instead.

export interface AccessResult {
  allowed: boolean;
  reason: string;
  needs_approval?: boolean;
  approvers?: string | null;
  cause?: string | null;
  who: string;
}
export interface AddedJob {
  job?: JobInfo | null;
  repeat?: RepeatInfo | null;
  is_new?: boolean;
}
export interface AgentInfo {
  session: string;
  service: string;
  backend: string;
  kind: string;
  mode?: string;
  state: string;
  condition: string;
  folder: string;
  worktree?: string | null;
  provider_id?: string | null;
  run_id?: string | null;
  opened_at: number;
  opened_by: string;
  parent?: string | null;
  turn?: number;
  is_working?: boolean;
  queued?: number;
  approvals?: string[];
  input_tokens?: number;
  output_tokens?: number;
  cost?: number;
  seconds?: number;
  crashes?: number;
  failure?: string | null;
  sentence?: string | null;
  fix?: string | null;
  next_start_at?: number | null;
  events?: number;
}
export interface AgentResult {
  outcome: string;
  agent: AgentInfo;
}
export interface AgentsResult {
  agents: AgentInfo[];
}
export interface Aggregate {
  totalCPU: number;
  totalMemory: number;
  activeProcesses: number;
  totalProcesses: number;
  totalThreads: number;
  totalHandles: number;
  totalBytesRead: number;
  totalBytesWritten: number;
}
export interface Alert {
  id: string;
  service: string | null;
  cause: string;
  severity: "critical" | "info" | "warning";
  message: string;
  since: number;
  last_at: number;
  count?: number;
  subject?: string;
  run_id?: string | null;
  cleared_at?: number | null;
  cleared_because?: string | null;
}
export interface AlertsResult {
  alerts: Alert[];
  targets?: TargetStatus[];
}
export interface ApprovalInfo {
  approval: string;
  command: string;
  arguments: Record<string, unknown>;
  actor: string;
  role: string;
  door: string;
  session?: string | null;
  policy: string;
  reason: string;
  approvers: string;
  asked_at: number;
  expires_at: number | null;
  state?: string;
  by?: string | null;
  why?: string | null;
  outcome?: string | null;
}
export interface ApprovalResult {
  approval: ApprovalInfo;
  message: string;
}
export interface ApprovalsResult {
  waiting: ApprovalInfo[];
  over?: ApprovalInfo[];
}
export interface ApprovedTools {
  server: string;
  approved: string[];
  held?: string[];
}
export interface AssistantSetup {
  name: string;
  title: string;
  file: string;
  entry: string;
  command: string[];
  note?: string;
}
export interface AssistantSetupsResult {
  programs: AssistantSetup[];
}
export interface AuditResult {
  records: (Record<string, unknown>)[];
  last: number;
  verdict?: AuditVerdict | null;
}
export interface AuditVerdict {
  whole: boolean;
  records: number;
  first: number;
  last: number;
  problem?: string | null;
  anchors?: (Record<string, unknown>)[];
}
export interface BackendInfo {
  name: string;
  kind: string;
  mode: string;
  model?: string | null;
  path?: string | null;
  version?: string | null;
  capabilities?: string[];
  login?: string;
  failure?: string | null;
  sentence?: string | null;
  fix?: string | null;
  health?: string | null;
  models?: string[];
  sessions?: string[];
}
export interface BackendsResult {
  backends: BackendInfo[];
}
export interface Backoff {
  type?: "exponential" | "fixed";
  delay?: number;
}
export interface Banner {
  id: string;
  kind: "approval" | "configuration" | "failure" | "history" | "lockdown" | "notice" | "resource" | "restart" | "rolling" | "switch" | "workflow";
  severity: "error" | "info" | "success" | "warning";
  title: string;
  detail?: string;
  service?: string | null;
  since?: number | null;
  progress?: BannerProgress | null;
  actions?: BannerAction[];
  hint?: string;
  is_dismissible?: boolean;
  expires_at?: number;
}
export interface BannerAction {
  label: string;
  command: string;
  arguments?: Record<string, unknown>;
}
export interface BannerProgress {
  step: number;
  steps: number;
  what?: string;
}
export interface BannersResult {
  banners: Banner[];
}
export interface ChangedFile {
  path: string;
  outcome: string;
  etag?: string | null;
  etag_before?: string | null;
  bytes?: number;
  bytes_before?: number;
  undone?: boolean;
}
export interface ChangesResult {
  changes: FileChange[];
  truncated?: boolean;
}
export interface CheckResult {
  probe: string;
  check: string;
  passed: boolean;
  reason: string;
  duration: number;
}
export interface Checkpoint {
  id: string;
  commit: string;
  time: number;
  note?: string;
  session?: string | null;
  repository?: string;
  head?: string | null;
  branch?: string | null;
  skipped?: string[];
}
export interface CheckpointsResult {
  checkpoints: Checkpoint[];
}
export interface ClosedSession {
  session: string;
  stopped?: string[];
  kept?: string[];
  handed_over?: string[];
  shared?: string[];
  goes_on?: boolean;
}
export interface ConfigResult {
  config: string | null;
  files: string[];
  values: ConfigValue[];
}
export interface ConfigValue {
  path: string[];
  value: unknown;
  source: "command_line" | "default" | "environment" | "file";
  file?: string | null;
  line?: number | null;
  given_by?: string | null;
  variables?: string[];
}
export interface ConfigurationChange {
  run?: number | null;
  at?: number | null;
  fields?: FieldChange[];
}
export interface CustomCommand {
  command: string;
  command_type?: string | null;
  args?: string[] | null;
  working_dir?: string | null;
  env?: Record<string, string> | null;
  description?: string | null;
  is_safe?: boolean | null;
  allowed_in_production?: boolean | null;
  timeout?: number | null;
  timeout_seconds?: number | null;
}
export interface DelegateResult {
  session: string;
  reason: string;
  text: string;
}
export interface DependenciesResult {
  services: Record<string, ServiceNeeds>;
}
export interface Done {
  message?: string;
}
export interface Edit {
  old: string;
  new: string;
  all?: boolean;
}
export interface EnvironmentResult {
  service: string;
  working_dir: string;
  user: string | null;
  umask: number | null;
  variables: Variable[];
}
export interface EventsResult {
  events: (Record<string, unknown>)[];
  last: number;
}
export interface ExplainResult {
  explanations: Explanation[];
  fine?: string[];
  lockdown?: LockdownInfo | null;
}
export interface Explanation {
  service: string;
  status: string;
  since: number;
  summary: string;
  next: string;
  is_fine: boolean;
  desired?: string;
  reason?: string | null;
  run?: number | null;
  pid?: number | null;
  uptime?: number | null;
  restarts?: number;
  failures?: number;
  next_start_in?: number | null;
  waiting_for?: string[];
  health?: string | null;
  is_ready?: boolean | null;
  command?: string[];
  working_dir?: string;
  happened?: Happening[];
  ending?: LastEnding | null;
  last_out?: string[];
  last_err?: string[];
  environment?: Record<string, string | null>;
  changes?: ConfigurationChange | null;
  started_by?: string | null;
  ports?: Record<string, number>;
  holders?: PortHolder[];
  alerts?: Alert[];
  hints?: string[];
  unknown?: string[];
}
export interface FieldChange {
  field: string;
  before?: string | null;
  after?: string | null;
}
export interface FileChange {
  change: string;
  time: number;
  command: string;
  actor: string;
  session?: string | null;
  files: ChangedFile[];
  undoes?: string | null;
  state?: string;
  left?: string[];
}
export interface FileContent {
  path: string;
  root: string;
  etag: string;
  size: number;
  modified: number;
  content: string;
  bytes: number;
  encoding: string;
  lossy?: boolean;
  bom?: boolean;
  line_ending?: string | null;
  first_line?: number | null;
  lines?: number;
  total_lines?: number | null;
  truncated?: boolean;
  next_offset?: number | null;
  next_byte?: number | null;
}
export interface FileCount {
  path: string;
  count: number;
}
export interface FileEdited {
  path: string;
  etag: string;
  etag_before: string;
  bytes: number;
  replaced: number[];
  diff: string;
  change?: string | null;
  dry_run?: boolean;
}
export interface FileEntry {
  path: string;
  kind: string;
  size?: number | null;
  modified?: number | null;
  target?: string | null;
  denied?: boolean;
}
export interface FileListing {
  path: string;
  root: string;
  entries: FileEntry[];
  ignored?: number;
  truncated?: boolean;
  cursor?: string | null;
}
export interface FileWritten {
  path: string;
  outcome: string;
  etag: string;
  etag_before?: string | null;
  bytes: number;
  encoding: string;
  line_ending?: string | null;
  change?: string | null;
  dry_run?: boolean;
}
export interface FilterSpec {
  max_length?: number | null;
  control_characters?: boolean;
  forbid?: string[];
}
export interface GitBranch {
  name: string;
  commit: string;
  subject: string;
  time: number;
  current?: boolean;
  remote?: boolean;
  upstream?: string | null;
  track?: string | null;
}
export interface GitBranchesResult {
  repository: string;
  branches: GitBranch[];
  complete: boolean;
}
export interface GitChangeResult {
  repository: string;
  changed: boolean;
  message: string;
  dry_run?: boolean;
  commit?: string | null;
  branch?: string | null;
  files?: GitFile[];
  conflicts?: GitConflict[];
  next?: string | null;
  checkpoint?: string | null;
  notes?: string[];
}
export interface GitCommitInfo {
  commit: string;
  author: string;
  email: string;
  time: number;
  subject: string;
  parents: string[];
  names?: string[];
}
export interface GitConflict {
  path: string;
  kind: string;
}
export interface GitFile {
  path: string;
  change: string;
  old_path?: string | null;
}
export interface GitLogResult {
  repository: string;
  commits: GitCommitInfo[];
  complete: boolean;
  cursor?: string | null;
}
export interface GitStatusResult {
  repository: string;
  branch: string | null;
  head: string | null;
  upstream?: string | null;
  ahead?: number | null;
  behind?: number | null;
  clean: boolean;
  staged?: GitFile[];
  changed?: GitFile[];
  untracked?: string[];
  conflicts?: GitConflict[];
  counts?: Record<string, number>;
  stashes?: number;
  under_way?: string | null;
  next?: string | null;
  complete?: boolean;
}
export interface GitTextResult {
  repository: string;
  text: string;
  complete: boolean;
  cursor?: string | null;
  stat?: string | null;
  revision?: string | null;
  notes?: string[];
}
export interface Happening {
  seq: number;
  time: number;
  kind: string;
  text: string;
}
export interface HealthResult {
  services: Record<string, ServiceHealth>;
}
export interface HeldTool {
  name: string;
  server: string;
  change: string;
  warnings?: string[];
  difference?: string[];
}
export interface Hit {
  path: string;
  line: number;
  text: string;
  column?: number | null;
  cut?: boolean;
}
export interface HostMetrics {
  cpu_percent: number | null;
  memory_percent: number | null;
  processors: number;
}
export interface JobInfo {
  id: string;
  state: "active" | "blocked" | "cancelled" | "completed" | "delayed" | "failed" | "waiting";
  kind: "kill" | "spawn";
  template: string;
  command: string;
  priority: number;
  attempts: number;
  most_attempts: number;
  added_at: number;
  by?: string;
  run_at?: number | null;
  started_at?: number | null;
  ended_at?: number | null;
  unique?: string | null;
  after?: string[];
  run_id?: string | null;
  pid?: number | null;
  progress?: unknown;
  result?: unknown;
  reason?: string | null;
  exit_code?: number | null;
  signal?: string | null;
  is_removed?: boolean;
}
export interface JobLogsResult {
  job: string;
  lines: LogLine[];
  cursor?: string | null;
  more?: boolean;
}
export interface JobResult {
  job: JobInfo;
}
export interface JobStatsResult {
  queue: string;
  concurrency: number;
  running: number;
  counts: Record<string, number>;
  totals: Record<string, number>;
  templates: Record<string, number>;
  is_paused: boolean;
  waits_for?: string | null;
}
export interface JobsResult {
  jobs: JobInfo[];
  counts: Record<string, number>;
  repeats?: RepeatInfo[];
  is_paused?: boolean;
}
export interface LastEnding {
  code?: number | null;
  signal?: string | null;
  seconds?: number | null;
  stage?: string | null;
  meaning?: string;
}
export interface LockdownInfo {
  reason: string;
  by: string;
  since?: number | null;
}
export interface LockdownResult {
  message: string;
  lockdown?: LockdownInfo | null;
  cancelled?: string[];
}
export interface LogHit {
  service: string;
  time: number | null;
  stream: "err" | "out";
  run: number;
  text: string;
  cursor: string;
  cut?: boolean;
}
export interface LogLine {
  time: number;
  stream: string;
  run: number;
  text: string;
  encoding?: "base64" | "utf8";
  partial?: boolean;
  note?: string | null;
}
export interface LogSearchResult {
  hits: LogHit[];
  complete: boolean;
  cursor?: string | null;
  notes?: string[];
}
export interface LogsResult {
  service: string;
  lines: LogLine[];
  cursor: string;
  more?: boolean;
  unfinished?: number;
}
export interface McpCallResult {
  call: string;
  tool: string;
  outcome: string;
  result?: Record<string, unknown>;
  run_id?: string | null;
  milliseconds?: number;
  attempts?: number;
  bytes?: number;
  pin?: string | null;
}
export interface McpLoginInfo {
  server: string;
  address?: string | null;
  scope?: string | null;
  expires_at?: number | null;
  revoked?: boolean;
}
export interface McpServerInfo {
  name: string;
  transport: string;
  state: string;
  notes?: string[];
  tools?: number;
  held?: number;
  denied?: number;
  calls?: number;
  failed_calls?: number;
  unknown_calls?: number;
  under_way?: number;
  p50_ms?: number | null;
  last_call?: number | null;
  version?: string | null;
  protocol?: string | null;
  reason?: string | null;
  instances?: string[];
}
export interface McpServersResult {
  servers: McpServerInfo[];
  gate?: boolean;
}
export interface McpToolInfo {
  name: string;
  server: string;
  tool: string;
  signature: string;
  only_reads?: boolean;
  may_repeat?: boolean;
  definition?: Record<string, unknown>;
  is_always_listed?: boolean;
}
export interface McpToolsResult {
  tools: McpToolInfo[];
  total: number;
  held?: HeldTool[];
  tokens?: number;
}
export interface MetricPoint {
  time: number;
  seconds: number;
  cpu_percent: number;
  cpu_percent_max: number;
  memory_bytes: number;
  memory_bytes_max: number;
  handles: number;
  threads: number;
  processes: number;
  read_bytes_per_second: number;
  written_bytes_per_second: number;
}
export interface MetricsResult {
  services: Record<string, ServiceMetrics>;
  aggregate: Aggregate;
  supervisor: OwnMetrics;
  host: HostMetrics;
  age: number | null;
  resolution?: number;
  history?: Record<string, MetricPoint[]>;
  security?: SecurityMetrics;
  queue?: QueueMetrics;
}
export interface ModeResult {
  runtime_mode: "advanced" | "proxy";
  proxy_services: string[];
  advanced_services: string[] | null;
  service_count: number;
  switching_to?: "advanced" | "proxy";
  restarts?: string[];
  message?: string;
}
export interface Need {
  service: string;
  condition: string;
  is_met: boolean;
  restart?: boolean;
}
export interface Outcome {
  outcome: string;
  status: string;
  pid?: number | null;
  run_id?: string | null;
  reason?: string | null;
  exit_code?: number | null;
  last_lines?: string[] | null;
  report?: (Record<string, unknown>)[] | null;
  error_type?: string;
  code?: string;
}
export interface Outcomes {
  services: Record<string, Outcome>;
}
export interface OwnMetrics {
  uptime: number;
  cpu_seconds: number | null;
  memory_bytes: number | null;
  keeper_cpu_seconds: number | null;
  keeper_memory_bytes: number | null;
  commands: Record<string, number>;
  handler_seconds: number;
  events: number;
  spawns: number;
  spawn_seconds: number;
  restarts: number;
  failures: number;
  loop_lag_seconds: number;
  loop_lag_max_seconds: number;
}
export interface PatchResult {
  files: PatchedFile[];
  change?: string | null;
  dry_run?: boolean;
}
export interface PatchedFile {
  path: string;
  outcome: string;
  previous_path?: string | null;
  added?: number;
  removed?: number;
  etag?: string | null;
  etag_before?: string | null;
  bytes?: number;
  offset?: number;
}
export interface PlanResult {
  config: string | null;
  services: Record<string, PlanStep>;
  settings?: string[];
  scaled?: Record<string, string>;
  changes?: boolean;
}
export interface PlanStep {
  action: "add" | "change" | "remove" | "restart" | "unchanged";
  fields?: string[];
  at_next_start?: boolean;
  overrides?: Record<string, unknown> | null;
  follows?: string[];
}
export interface PoliciesResult {
  runtime_mode: "advanced" | "proxy";
  policies?: PolicySpec[];
  filters?: FilterSpec | null;
  lockdown?: LockdownInfo | null;
}
export interface PolicySpec {
  name: string;
  effect: "allow" | "confirm" | "deny";
  reason?: string;
  actors?: string[] | null;
  roles?: string[] | null;
  doors?: string[] | null;
  commands?: string[] | null;
  services?: string[] | null;
  tags?: string[] | null;
  paths?: string[] | null;
  tools?: string[] | null;
  times?: Window[] | null;
  approve_within?: number;
  approvers?: "admin" | "operator";
}
export interface PortHolder {
  port: number;
  pid: number | null;
  name: string;
  service?: string | null;
}
export interface PortInfo {
  port: number;
  addresses?: string[];
  pid?: number | null;
  command?: string;
  service?: string | null;
  project?: string | null;
  ours?: boolean;
  name?: string | null;
}
export interface PortsResult {
  ports: PortInfo[];
  free?: boolean | null;
}
export interface PreferencesResult {
  values: Record<string, unknown>;
}
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  hint: string;
  details?: Record<string, unknown>;
}
export interface ProcessInfo {
  pid: number;
  ppid: number;
  name: string;
  command: string;
  state: string;
  memory_bytes?: number | null;
  cpu_seconds?: number | null;
  started_at?: number | null;
}
export interface PromptResult {
  session: string;
  turn: number;
  after: number;
  is_queued?: boolean;
}
export interface PruneResult {
  deleted_bytes: number;
  deleted_runs: number;
  services: string[];
}
export interface PsResult {
  services: Record<string, ProcessInfo[]>;
}
export interface QueueMetrics {
  states: Record<string, number>;
  totals: Record<string, number>;
  running: number;
  concurrency: number;
  paused: boolean;
}
export interface ReloadResult {
  config: string | null;
  plan: Record<string, PlanStep>;
  services: Record<string, Outcome>;
  settings?: string[];
  changes?: boolean;
}
export interface RepeatInfo {
  id: string;
  template: string;
  command: string;
  schedule: string;
  next: number | null;
  by?: string;
}
export interface RestoredResult {
  restored: Checkpoint;
  saved: Checkpoint | null;
  changed: boolean;
  dry_run?: boolean;
  files?: GitFile[];
  message?: string;
}
export interface RollingResult {
  services: Record<string, Outcome>;
  remaining?: string[];
  reason?: string | null;
}
export interface RunRecord {
  run_id: string;
  service: string;
  number: number;
  pid: number;
  started_at: number;
  ended_at: number | null;
  duration: number | null;
  exit_code: number | null;
  signal: string | null;
  unknown: boolean;
  reason: string | null;
  log_bytes: number;
  rusage: Record<string, unknown> | null;
  error_type?: string | null;
  changes?: string[] | null;
}
export interface RunsResult {
  runs: RunRecord[];
}
export interface ScaleResult {
  services: Record<string, Outcome>;
  instances: Record<string, number>;
}
export interface SearchResult {
  mode: "content" | "count" | "files";
  hits?: Hit[];
  files?: string[];
  counts?: FileCount[];
  complete: boolean;
  cursor?: string | null;
  notes?: string[];
}
export interface SecurityMetrics {
  refusals: (Record<string, unknown>)[];
  approvals: Record<string, number>;
  approvals_waiting: number;
  lockdowns: number;
  locked_down: boolean;
}
export interface ServiceHealth {
  status: string;
  ready: boolean | null;
  health: string | null;
  consecutive_failures: number;
  checks: CheckResult[];
}
export interface ServiceMetrics {
  status: string;
  pid?: number | null;
  started_at?: number | null;
  uptime?: number | null;
  cpu_percent?: number | null;
  memory_bytes?: number | null;
  memory_mb?: number | null;
  user_seconds?: number | null;
  system_seconds?: number | null;
  handles?: number | null;
  threads?: number | null;
  processes?: number | null;
  read_bytes?: number | null;
  written_bytes?: number | null;
  read_chars?: number | null;
  written_chars?: number | null;
  cpu_seconds_total?: number;
  read_bytes_total?: number;
  written_bytes_total?: number;
  restarts?: number;
  runs?: number;
  custom?: Record<string, number>;
  pss_bytes?: number | null;
  ports?: number[];
}
export interface ServiceNeeds {
  status: string;
  desired: string;
  needs?: Need[];
  needed_by?: string[];
  layer?: number;
  template?: string | null;
  groups?: string[];
  tags?: string[];
}
export interface ServiceStatus {
  status: string;
  desired: string;
  pid: number | null;
  uptime: number | null;
  restart_count: number;
  restarts?: Record<string, number>;
  run_id: string | null;
  run: number | null;
  exit_code: number | null;
  signal: string | null;
  reason: string | null;
  duration: number | null;
  log_bytes: number;
  since: number;
  started_at?: number | null;
  next_start_in?: number | null;
  next_scheduled?: number;
  start_failures?: number;
  terminal?: boolean;
  adopted?: boolean;
  paused?: boolean;
  label?: string;
  origin?: string;
  overrides?: Record<string, unknown> | null;
  error_type?: string;
  memory_mb?: number;
  cpu_percent?: number;
  waiting_for?: string[];
  beside?: Record<string, unknown>;
  ports?: Record<string, number>;
  owner?: Record<string, unknown>;
  scaled?: string;
  ready?: boolean;
  health?: string;
  said?: string;
  consecutive_failures?: number;
}
export interface SessionInfo {
  session: string;
  client: string;
  role: string;
  opened_by: string;
  opened_at: number;
  fate: "hand_over" | "keep" | "stop";
  grace: number;
  held: boolean;
  expires_in?: number | null;
  run_id?: string | null;
  owns?: string[];
  first_call?: string | null;
  scopes?: Record<string, unknown>;
  hold?: string;
}
export interface SessionResult {
  session: SessionInfo;
  token?: string | null;
}
export interface SessionsResult {
  sessions: SessionInfo[];
}
export interface ShutdownResult {
  message: string;
  kept?: string[];
  stuck?: string[];
}
export interface StatusResult {
  supervisor: SupervisorStatus;
  services: Record<string, ServiceStatus>;
}
export interface StepResult {
  what: string;
  outcome: "cancelled" | "done" | "failed" | "skipped" | "timeout";
  part?: string;
  exit_code?: number | null;
  signal?: string | null;
  seconds?: number | null;
  out?: string;
  err?: string;
  reason?: string | null;
}
export interface SupervisorStatus {
  status: string;
  uptime: number;
  managed_services: number;
  pid: number;
  keeper_pid: number;
  version: string;
  project?: string;
  config?: string | null;
  doors?: Record<string, string>;
  door_notes?: Record<string, string>;
  fingerprint?: string;
  selectors?: string[];
  alerts?: Record<string, number>;
  banners?: Banner[];
  runtime_mode?: string;
  lockdown?: Record<string, unknown>;
  approvals?: number;
  unrecorded?: string;
  unclaimed?: (Record<string, unknown>)[];
}
export interface SystemMetrics {
  services: Record<string, SystemUsage>;
  aggregate: Aggregate;
  supervisor: OwnMetrics;
  host: HostMetrics;
  age: number | null;
  resolution?: number;
  history?: Record<string, MetricPoint[]>;
  security?: SecurityMetrics;
  queue?: QueueMetrics;
}
export interface SystemService {
  status: string;
  desired: string;
  pid: number | null;
  uptime: number | null;
  restart_count: number;
  restarts?: Record<string, number>;
  run_id: string | null;
  run: number | null;
  exit_code: number | null;
  signal: string | null;
  reason: string | null;
  duration: number | null;
  log_bytes: number;
  since: number;
  started_at?: number | null;
  next_start_in?: number | null;
  next_scheduled?: number;
  start_failures?: number;
  terminal?: boolean;
  adopted?: boolean;
  paused?: boolean;
  label?: string;
  origin?: string;
  overrides?: Record<string, unknown> | null;
  error_type?: string;
  memory_mb?: number;
  cpu_percent?: number;
  waiting_for?: string[];
  beside?: Record<string, unknown>;
  ports?: Record<string, number>;
  owner?: Record<string, unknown>;
  scaled?: string;
  ready?: boolean;
  health?: string;
  said?: string;
  consecutive_failures?: number;
  cpu?: number;
  memory?: number;
  startTime?: string;
  startTimeMs?: number;
}
export interface SystemStatus {
  supervisor: SupervisorStatus;
  services: Record<string, SystemService>;
}
export interface SystemUsage {
  status: string;
  pid?: number | null;
  started_at?: number | null;
  uptime?: number | null;
  cpu_percent?: number | null;
  memory_bytes?: number | null;
  memory_mb?: number | null;
  user_seconds?: number | null;
  system_seconds?: number | null;
  handles?: number | null;
  threads?: number | null;
  processes?: number | null;
  read_bytes?: number | null;
  written_bytes?: number | null;
  read_chars?: number | null;
  written_chars?: number | null;
  cpu_seconds_total?: number;
  read_bytes_total?: number;
  written_bytes_total?: number;
  restarts?: number;
  runs?: number;
  custom?: Record<string, number>;
  pss_bytes?: number | null;
  ports?: number[];
  cpu?: number;
  memory?: number;
  startTime?: string;
  bytesRead?: number;
  bytesWritten?: number;
  userTime?: number;
  systemTime?: number;
}
export interface TargetStatus {
  name: string;
  way: string;
  severity: string;
  delivered: number;
  skipped: number;
  failures: number;
  failing_since?: number | null;
  reason?: string | null;
  last_delivered_at?: number | null;
}
export interface TerminalResult {
  service: string;
  beside: string;
  outcome: Outcome;
}
export interface TokenInfo {
  id: string;
  name: string;
  role: string;
  kind?: string;
  created_at: number;
  expires_at?: number | null;
  scopes?: Record<string, unknown>;
  by?: string | null;
}
export interface TokenResult {
  token: TokenInfo;
  text?: string | null;
  also?: string[];
  sessions?: string[];
}
export interface TokensResult {
  tokens: TokenInfo[];
}
export interface TranscriptResult {
  session: string;
  events?: (Record<string, unknown>)[];
  markdown?: string | null;
  after: number;
  is_whole?: boolean;
}
export interface UnderWay {
  id: string;
  name: string;
  service: string | null;
  by: string;
  step: number;
  steps: number;
  what: string;
  seconds: number;
}
export interface UndoResult {
  undone: string;
  files: ChangedFile[];
  change?: string | null;
  dry_run?: boolean;
}
export interface Variable {
  name: string;
  value: string | null;
  source: "configuration" | "holdfast" | "port" | "restart" | "up";
}
export interface WaitResult {
  service: string;
  met: boolean;
  status: string;
  exit_code?: number | null;
  line?: string | null;
  seconds?: number;
}
export interface Window {
  days?: number[];
  begin?: number;
  end?: number;
  zone?: string | null;
}
export interface WorkflowInfo {
  description: string;
  steps: string[];
  timeout: number;
}
export interface WorkflowResult {
  id: string;
  name: string;
  outcome: "cancelled" | "done" | "failed";
  seconds: number;
  steps: StepResult[];
  service?: string | null;
  reason?: string | null;
  status?: ServiceStatus | null;
}
export interface WorkflowsResult {
  workflows: Record<string, WorkflowInfo>;
  commands: Record<string, string>;
  under_way: UnderWay[];
}

export interface Commands {
  add_job: {
    takes: { kind?: "kill" | "spawn"; template?: string | null; argv?: string[]; working_dir?: string | null; env?: Record<string, string> | null; service?: string | null; signal?: string; priority?: number | null; delay?: number; attempts?: number | null; backoff?: Backoff | null; timeout?: number | null; unique?: string | null; after?: string[]; repeat?: string | null; every?: number | null; remove_on_complete?: boolean | null; remove_on_fail?: boolean | null; };
    answers: AddedJob;
    permission: "operate";
    effect: "changes";
  };
  adopt: {
    takes: { service: string; pid?: number | null; pidfile?: string | null; port?: number | null; };
    answers: Outcomes;
    permission: "administer";
    effect: "changes";
  };
  alerts: {
    takes: { services?: string[]; history?: boolean; limit?: number; };
    answers: AlertsResult;
    permission: "view";
    effect: "reads";
  };
  apply_patch: {
    takes: { patch: string; root?: string | null; dry_run?: boolean; };
    answers: PatchResult;
    permission: "operate";
    effect: "changes";
  };
  approvals: {
    takes: {};
    answers: ApprovalsResult;
    permission: "operate";
    effect: "reads";
  };
  approve: {
    takes: { approval: string; reason?: string | null; };
    answers: ApprovalResult;
    permission: "operate";
    effect: "changes";
  };
  approve_mcp_tools: {
    takes: { service: string; tools?: string[]; };
    answers: ApprovedTools;
    permission: "administer";
    effect: "changes";
  };
  assistant_setups: {
    takes: { read_only?: boolean; start?: boolean; toolsets?: string[]; };
    answers: AssistantSetupsResult;
    permission: "view";
    effect: "reads";
  };
  audit: {
    takes: { since?: number | null; after?: number | null; limit?: number; actor?: string | null; about?: string | null; verify?: boolean; follow?: boolean; };
    answers: AuditResult;
    permission: "administer";
    effect: "reads";
  };
  banners: {
    takes: { services?: string[]; };
    answers: BannersResult;
    permission: "view";
    effect: "reads";
  };
  call_mcp_tool: {
    takes: { tool: string; arguments?: Record<string, unknown>; call?: string | null; keep?: boolean; };
    answers: McpCallResult;
    permission: "operate";
    effect: "changes";
  };
  cancel_job: {
    takes: { job: string; };
    answers: JobResult;
    permission: "operate";
    effect: "disrupts";
  };
  cancel_workflow: {
    takes: { workflow: string; };
    answers: Done;
    permission: "operate";
    effect: "disrupts";
  };
  check_access: {
    takes: { who: string; about: string; services?: string[]; arguments?: Record<string, unknown>; door?: string; };
    answers: AccessResult;
    permission: "administer";
    effect: "reads";
  };
  checkpoint: {
    takes: { repository?: string | null; note?: string; };
    answers: Checkpoint;
    permission: "operate";
    effect: "changes";
  };
  checkpoints: {
    takes: { repository?: string | null; session?: string | null; limit?: number; };
    answers: CheckpointsResult;
    permission: "view";
    effect: "reads";
  };
  close_session: {
    takes: { session?: string | null; fate?: "hand_over" | "keep" | "stop" | null; hold?: string | null; };
    answers: ClosedSession;
    permission: "view";
    effect: "disrupts";
  };
  config: {
    takes: { services?: string[]; defaults?: boolean; };
    answers: ConfigResult;
    permission: "operate";
    effect: "reads";
  };
  create_token: {
    takes: { token_name: string; role?: string; commands?: string[] | null; services?: string[] | null; tags?: string[] | null; paths?: string[] | null; tools?: string[] | null; expires_in?: number | null; };
    answers: TokenResult;
    permission: "administer";
    effect: "changes";
  };
  custom_restart: {
    takes: { service?: string | null; pre_commands?: CustomCommand[] | null; start_args?: string[] | null; args?: string[] | null; post_commands?: CustomCommand[] | null; env_vars?: Record<string, string> | null; timeout?: number | null; timeout_seconds?: number | null; follow?: boolean; };
    answers: WorkflowResult;
    permission: "operate";
    effect: "disrupts";
  };
  delegate: {
    takes: { backend?: string; text?: string; session?: string | null; working_dir?: string; seconds?: number; keep?: boolean; };
    answers: DelegateResult;
    permission: "operate";
    effect: "changes";
  };
  dependencies: {
    takes: { services?: string[]; };
    answers: DependenciesResult;
    permission: "view";
    effect: "reads";
  };
  dismiss_banner: {
    takes: { banner: string; };
    answers: Done;
    permission: "operate";
    effect: "changes";
  };
  edit_file: {
    takes: { path: string; edits: Edit[]; root?: string | null; etag?: string | null; dry_run?: boolean; };
    answers: FileEdited;
    permission: "operate";
    effect: "changes";
  };
  environment: {
    takes: { service: string; reveal?: boolean; };
    answers: EnvironmentResult;
    permission: "operate";
    effect: "reads";
  };
  events: {
    takes: { since?: number | null; limit?: number; follow?: boolean; services?: string[]; };
    answers: EventsResult;
    permission: "view";
    effect: "reads";
  };
  execute_command: {
    takes: { command?: CustomCommand | null; custom_command?: CustomCommand | null; timeout_seconds?: number | null; service?: string | null; working_dir?: string | null; environment?: Record<string, string> | null; follow?: boolean; };
    answers: WorkflowResult;
    permission: "operate";
    effect: "changes";
  };
  explain: {
    takes: { service: string | null; services?: string[]; };
    answers: ExplainResult;
    permission: "view";
    effect: "reads";
  };
  file_changes: {
    takes: { path?: string | null; root?: string | null; limit?: number; };
    answers: ChangesResult;
    permission: "view";
    effect: "reads";
  };
  finish_mcp_login: {
    takes: { service: string; address: string; };
    answers: McpLoginInfo;
    permission: "administer";
    effect: "changes";
  };
  follow_workflow: {
    takes: { workflow: string; follow?: boolean; };
    answers: WorkflowResult;
    permission: "operate";
    effect: "reads";
  };
  forget_agent: {
    takes: { session: string; };
    answers: Done;
    permission: "operate";
    effect: "disrupts";
  };
  fork_agent: {
    takes: { session: string; service?: string | null; };
    answers: AgentResult;
    permission: "operate";
    effect: "changes";
  };
  get_approval: {
    takes: { approval: string; };
    answers: ApprovalResult;
    permission: "view";
    effect: "reads";
  };
  get_mode: {
    takes: {};
    answers: ModeResult;
    permission: "view";
    effect: "reads";
  };
  git_abort: {
    takes: { repository?: string | null; dry_run?: boolean; };
    answers: GitChangeResult;
    permission: "operate";
    effect: "changes";
  };
  git_add: {
    takes: { repository?: string | null; dry_run?: boolean; paths: string[]; };
    answers: GitChangeResult;
    permission: "operate";
    effect: "changes";
  };
  git_blame: {
    takes: { repository?: string | null; path: string; rev?: string | null; line?: number; limit?: number; max_bytes?: number; cursor?: string | null; };
    answers: GitTextResult;
    permission: "view";
    effect: "reads";
  };
  git_branches: {
    takes: { repository?: string | null; remote?: boolean; limit?: number; };
    answers: GitBranchesResult;
    permission: "view";
    effect: "reads";
  };
  git_commit: {
    takes: { repository?: string | null; dry_run?: boolean; message: string; paths?: string[]; };
    answers: GitChangeResult;
    permission: "operate";
    effect: "changes";
  };
  git_diff: {
    takes: { repository?: string | null; rev?: string | null; staged?: boolean; paths?: string[]; context?: number; max_bytes?: number; cursor?: string | null; };
    answers: GitTextResult;
    permission: "view";
    effect: "reads";
  };
  git_log: {
    takes: { repository?: string | null; rev?: string | null; paths?: string[]; limit?: number; cursor?: string | null; };
    answers: GitLogResult;
    permission: "view";
    effect: "reads";
  };
  git_restore: {
    takes: { repository?: string | null; dry_run?: boolean; paths: string[]; rev?: string | null; staged?: boolean; };
    answers: GitChangeResult;
    permission: "operate";
    effect: "changes";
  };
  git_show: {
    takes: { repository?: string | null; rev?: string; paths?: string[]; max_bytes?: number; cursor?: string | null; };
    answers: GitTextResult;
    permission: "view";
    effect: "reads";
  };
  git_stash: {
    takes: { repository?: string | null; dry_run?: boolean; action?: "apply" | "drop" | "list" | "pop" | "push"; number?: number; paths?: string[]; message?: string | null; };
    answers: GitChangeResult;
    permission: "operate";
    effect: "changes";
  };
  git_status: {
    takes: { repository?: string | null; limit?: number; };
    answers: GitStatusResult;
    permission: "view";
    effect: "reads";
  };
  git_switch: {
    takes: { repository?: string | null; dry_run?: boolean; branch?: string | null; create?: boolean; rev?: string | null; };
    answers: GitChangeResult;
    permission: "operate";
    effect: "changes";
  };
  git_tag: {
    takes: { repository?: string | null; dry_run?: boolean; tag: string; rev?: string | null; message?: string | null; };
    answers: GitChangeResult;
    permission: "operate";
    effect: "changes";
  };
  health_check: {
    takes: { services?: string[]; };
    answers: HealthResult;
    permission: "view";
    effect: "reads";
  };
  interrupt: {
    takes: { session: string; };
    answers: AgentResult;
    permission: "operate";
    effect: "changes";
  };
  job_logs: {
    takes: { job: string; attempt?: number | null; tail?: number | null; cursor?: string | null; limit?: number; follow?: boolean; };
    answers: JobLogsResult;
    permission: "view";
    effect: "reads";
  };
  job_stats: {
    takes: {};
    answers: JobStatsResult;
    permission: "view";
    effect: "reads";
  };
  list_agents: {
    takes: { backends?: string[]; };
    answers: AgentsResult;
    permission: "view";
    effect: "reads";
  };
  list_backends: {
    takes: { backends?: string[]; probe?: boolean; };
    answers: BackendsResult;
    permission: "view";
    effect: "reads";
  };
  list_files: {
    takes: { path?: string; root?: string | null; depth?: number; hidden?: boolean; ignored?: boolean; limit?: number; cursor?: string | null; };
    answers: FileListing;
    permission: "view";
    effect: "reads";
  };
  list_jobs: {
    takes: { states?: ("active" | "blocked" | "cancelled" | "completed" | "delayed" | "failed" | "waiting")[]; templates?: string[]; limit?: number; };
    answers: JobsResult;
    permission: "view";
    effect: "reads";
  };
  list_sessions: {
    takes: {};
    answers: SessionsResult;
    permission: "view";
    effect: "reads";
  };
  list_tokens: {
    takes: {};
    answers: TokensResult;
    permission: "administer";
    effect: "reads";
  };
  lockdown: {
    takes: { reason: string; };
    answers: LockdownResult;
    permission: "administer";
    effect: "changes";
  };
  login_mcp_server: {
    takes: { service: string; callback: string; };
    answers: McpLoginInfo;
    permission: "administer";
    effect: "changes";
  };
  logout_mcp_server: {
    takes: { service: string; };
    answers: McpLoginInfo;
    permission: "administer";
    effect: "changes";
  };
  logs: {
    takes: { service: string; cursor?: string | null; tail?: number | null; since?: number | null; stream?: "err" | "out" | null; run?: number | null; grep?: string | null; raw?: boolean; limit?: number; max_bytes?: number | null; };
    answers: LogsResult;
    permission: "view";
    effect: "reads";
  };
  mcp_servers: {
    takes: { services?: string[]; };
    answers: McpServersResult;
    permission: "view";
    effect: "reads";
  };
  mcp_tools: {
    takes: { services?: string[]; query?: string | null; tool?: string | null; limit?: number; schema?: boolean; held?: boolean; };
    answers: McpToolsResult;
    permission: "view";
    effect: "reads";
  };
  metrics: {
    takes: { services?: string[]; extras?: boolean; history?: number | null; resolution?: number | null; };
    answers: MetricsResult;
    permission: "view";
    effect: "reads";
  };
  open_session: {
    takes: { client: string; fate?: "hand_over" | "keep" | "stop" | null; grace?: number | null; };
    answers: SessionResult;
    permission: "view";
    effect: "changes";
  };
  open_terminal: {
    takes: { service: string; };
    answers: TerminalResult;
    permission: "operate";
    effect: "changes";
  };
  pause: {
    takes: { services: string[]; };
    answers: Outcomes;
    permission: "operate";
    effect: "disrupts";
  };
  pause_jobs: {
    takes: {};
    answers: Done;
    permission: "operate";
    effect: "disrupts";
  };
  plan: {
    takes: { services?: string[]; config?: string | null; };
    answers: PlanResult;
    permission: "view";
    effect: "reads";
  };
  policies: {
    takes: {};
    answers: PoliciesResult;
    permission: "operate";
    effect: "reads";
  };
  ports: {
    takes: { port?: number | null; all?: boolean; };
    answers: PortsResult;
    permission: "view";
    effect: "reads";
  };
  preferences: {
    takes: {};
    answers: PreferencesResult;
    permission: "view";
    effect: "reads";
  };
  prompt: {
    takes: { session: string; text: string; };
    answers: PromptResult;
    permission: "operate";
    effect: "changes";
  };
  prune: {
    takes: { services?: string[]; older_than?: number; };
    answers: PruneResult;
    permission: "operate";
    effect: "changes";
  };
  ps: {
    takes: { services?: string[]; };
    answers: PsResult;
    permission: "view";
    effect: "reads";
  };
  read_file: {
    takes: { path: string; root?: string | null; offset?: number | null; limit?: number | null; tail?: number | null; from_byte?: number | null; max_bytes?: number; encoding?: "base64" | "text"; };
    answers: FileContent;
    permission: "view";
    effect: "reads";
  };
  read_mcp_tool: {
    takes: { tool: string; arguments?: Record<string, unknown>; call?: string | null; keep?: boolean; };
    answers: McpCallResult;
    permission: "view";
    effect: "reads";
  };
  reject: {
    takes: { approval: string; reason?: string | null; };
    answers: ApprovalResult;
    permission: "operate";
    effect: "changes";
  };
  reload: {
    takes: { config?: string | null; wait?: boolean; delete_logs?: boolean; };
    answers: ReloadResult;
    permission: "operate";
    effect: "disrupts";
  };
  remove: {
    takes: { services: string[]; keep_logs?: boolean; };
    answers: Outcomes;
    permission: "operate";
    effect: "disrupts";
  };
  renew_session: {
    takes: { session?: string | null; };
    answers: SessionResult;
    permission: "view";
    effect: "changes";
  };
  resize: {
    takes: { service: string; cols: number; rows: number; };
    answers: Done;
    permission: "operate";
    effect: "changes";
  };
  restart: {
    takes: { services?: string[]; service?: string | null; args?: string[] | null; env_vars?: Record<string, string> | null; wait?: boolean; timeout?: number; keep?: boolean; };
    answers: Outcomes;
    permission: "operate";
    effect: "disrupts";
  };
  restart_agent: {
    takes: { session: string; };
    answers: AgentResult;
    permission: "operate";
    effect: "disrupts";
  };
  restore_checkpoint: {
    takes: { checkpoint?: string | null; repository?: string | null; dry_run?: boolean; };
    answers: RestoredResult;
    permission: "operate";
    effect: "changes";
  };
  resume: {
    takes: { services: string[]; };
    answers: Outcomes;
    permission: "operate";
    effect: "changes";
  };
  resume_agent: {
    takes: { session: string; };
    answers: AgentResult;
    permission: "operate";
    effect: "changes";
  };
  resume_jobs: {
    takes: {};
    answers: Done;
    permission: "operate";
    effect: "changes";
  };
  retry_job: {
    takes: { job: string; };
    answers: JobResult;
    permission: "operate";
    effect: "changes";
  };
  revoke_token: {
    takes: { token: string; };
    answers: TokenResult;
    permission: "administer";
    effect: "changes";
  };
  rolling_restart: {
    takes: { services: string[]; timeout?: number; };
    answers: RollingResult;
    permission: "operate";
    effect: "disrupts";
  };
  rotate_token: {
    takes: { token: string; };
    answers: TokenResult;
    permission: "administer";
    effect: "changes";
  };
  run_workflow: {
    takes: { name: string; follow?: boolean; };
    answers: WorkflowResult;
    permission: "operate";
    effect: "disrupts";
  };
  runs: {
    takes: { service: string; limit?: number; };
    answers: RunsResult;
    permission: "view";
    effect: "reads";
  };
  scale: {
    takes: { instances: Record<string, number>; wait?: boolean; };
    answers: ScaleResult;
    permission: "operate";
    effect: "disrupts";
  };
  search: {
    takes: { pattern: string; path?: string | null; glob?: string[]; type?: string[]; mode?: "content" | "count" | "files"; context?: number; literal?: boolean; case?: "ignore" | "sensitive" | "smart"; hidden?: boolean; limit?: number; max_bytes?: number; cursor?: string | null; };
    answers: SearchResult;
    permission: "view";
    effect: "reads";
  };
  search_logs: {
    takes: { pattern: string; services?: string[]; since?: number | null; until?: number | null; stream?: "err" | "out" | null; literal?: boolean; raw?: boolean; case?: "ignore" | "sensitive" | "smart"; limit?: number; max_bytes?: number; cursor?: string | null; };
    answers: LogSearchResult;
    permission: "view";
    effect: "reads";
  };
  send_input: {
    takes: { service: string; data?: string; eof?: boolean; };
    answers: Done;
    permission: "operate";
    effect: "changes";
  };
  set_mode: {
    takes: { mode: "advanced" | "proxy"; };
    answers: ModeResult;
    permission: "administer";
    effect: "changes";
  };
  set_preferences: {
    takes: { values: Record<string, unknown>; };
    answers: PreferencesResult;
    permission: "view";
    effect: "changes";
  };
  show_job: {
    takes: { job: string; };
    answers: JobResult;
    permission: "view";
    effect: "reads";
  };
  shutdown: {
    takes: { keep_running?: boolean; now?: boolean; };
    answers: ShutdownResult;
    permission: "administer";
    effect: "disrupts";
  };
  signal: {
    takes: { services: string[]; signal: string; to?: string; };
    answers: Outcomes;
    permission: "operate";
    effect: "disrupts";
  };
  start: {
    takes: { services?: string[]; default?: boolean; wait?: boolean; timeout?: number; keep?: boolean; };
    answers: Outcomes;
    permission: "operate";
    effect: "changes";
  };
  start_or_attach: {
    takes: { backend?: string; session?: string | null; working_dir?: string; service?: string | null; worktree?: boolean; new?: boolean; };
    answers: AgentResult;
    permission: "operate";
    effect: "changes";
  };
  status: {
    takes: { services?: string[]; };
    answers: StatusResult;
    permission: "view";
    effect: "reads";
  };
  stop: {
    takes: { services?: string[]; default?: boolean; grace?: number | null; };
    answers: Outcomes;
    permission: "operate";
    effect: "disrupts";
  };
  stop_agent: {
    takes: { session: string; };
    answers: AgentResult;
    permission: "operate";
    effect: "disrupts";
  };
  transcript: {
    takes: { session: string; after?: number; limit?: number; format?: string; follow?: boolean; turn?: number | null; };
    answers: TranscriptResult;
    permission: "view";
    effect: "reads";
  };
  undo_files: {
    takes: { change?: string | null; path?: string | null; root?: string | null; force?: boolean; dry_run?: boolean; };
    answers: UndoResult;
    permission: "operate";
    effect: "changes";
  };
  unlock: {
    takes: {};
    answers: LockdownResult;
    permission: "administer";
    effect: "changes";
  };
  wait: {
    takes: { service: string; condition?: string; raw?: boolean; cursor?: string | null; timeout?: number; };
    answers: WaitResult;
    permission: "view";
    effect: "reads";
  };
  wait_job: {
    takes: { job: string; timeout?: number; follow?: boolean; };
    answers: JobResult;
    permission: "view";
    effect: "reads";
  };
  withdraw: {
    takes: { approval: string; };
    answers: ApprovalResult;
    permission: "view";
    effect: "changes";
  };
  workflows: {
    takes: {};
    answers: WorkflowsResult;
    permission: "view";
    effect: "reads";
  };
  write_file: {
    takes: { path: string; content: string; root?: string | null; encoding?: "base64" | "utf8"; etag?: string | null; dry_run?: boolean; };
    answers: FileWritten;
    permission: "operate";
    effect: "changes";
  };
}
