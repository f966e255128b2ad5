BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'two');
INSERT INTO "studies" VALUES(2,'sizes');
INSERT INTO "studies" VALUES(3,'empty');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MINIMIZE',1,0);
INSERT INTO "study_directions" VALUES(2,'MAXIMIZE',1,1);
INSERT INTO "study_directions" VALUES(3,'MAXIMIZE',2,0);
INSERT INTO "study_directions" VALUES(4,'MINIMIZE',3,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_user_attributes" VALUES(1,2,'who','"a test, with {\"braces\": NaN}"');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_intermediate_values" VALUES(1,1,0,9.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,1,1,4.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(3,1,2,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(4,1,3,2.25,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(5,2,0,5.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(6,2,1,2.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(7,2,2,1.66666666666666674068e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(8,2,3,1.25,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(9,3,0,4.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(10,3,1,NULL,'NAN');
INSERT INTO "trial_intermediate_values" VALUES(11,3,2,1.33333333333333325931e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(12,3,3,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(13,5,0,4.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(14,5,1,2.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(15,5,2,1.33333333333333325931e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(16,6,0,6.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(17,6,1,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(18,6,2,2.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(19,6,3,1.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(20,7,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(21,7,1,1.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(22,7,2,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(23,7,3,0.75,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(24,8,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(25,8,1,1.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(26,8,2,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(27,9,0,7.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(28,9,1,3.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(29,9,2,2.33333333333333348136e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(30,9,3,1.75,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(31,10,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(32,10,1,1.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(33,10,2,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(34,10,3,0.75,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(35,11,0,8.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(36,11,1,4.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(37,11,2,2.66666666666666651863e+00,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(38,11,3,2.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(39,12,0,3.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(40,12,1,1.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(41,12,2,1.0,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(42,12,3,0.75,'FINITE');
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'eta',4.63425058329488268656e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(2,1,'depth',9.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(3,1,'subsample',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(4,1,'width',51.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(5,1,'booster',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(6,1,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(7,2,'eta',3.59131883825406774887e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(8,2,'depth',5.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(9,2,'subsample',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(10,2,'width',4.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(11,2,'booster',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(12,2,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(13,3,'eta',4.36326000905218197578e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(14,3,'depth',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(15,3,'subsample',0.75,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(16,3,'width',8.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(17,3,'booster',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(18,3,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(19,4,'eta',6.27274095112269770152e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(20,4,'depth',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(21,4,'subsample',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(22,4,'width',9.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(23,4,'booster',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(24,4,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(25,5,'eta',7.59766509347457180689e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(26,5,'depth',4.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(27,5,'subsample',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(28,5,'width',6.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(29,5,'booster',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(30,5,'momentum',0.577662858129756,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(31,5,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(32,6,'eta',1.01140831129912991005e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(33,6,'depth',6.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(34,6,'subsample',0.75,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(35,6,'width',62.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(36,6,'booster',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(37,6,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(38,7,'eta',5.86474105903623671443e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(39,7,'depth',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(40,7,'subsample',0.75,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(41,7,'width',61.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(42,7,'booster',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(43,7,'momentum',7.70854087140224519814e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(44,7,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(45,8,'eta',2.8496611720130095996e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(46,8,'depth',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(47,8,'subsample',0.5,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(48,8,'width',5.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(49,8,'booster',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(50,8,'momentum',8.166602026153618743e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(51,8,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(52,9,'eta',4.99167140135975840459e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(53,9,'depth',7.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(54,9,'subsample',1.0,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(55,9,'width',52.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(56,9,'booster',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(57,9,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(58,10,'eta',1.21100310143131776469e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(59,10,'depth',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(60,10,'subsample',0.75,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(61,10,'width',36.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(62,10,'booster',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(63,10,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(64,11,'eta',5.40595717373686438476e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(65,11,'depth',8.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(66,11,'subsample',0.75,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(67,11,'width',23.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(68,11,'booster',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(69,11,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
INSERT INTO "trial_params" VALUES(70,12,'eta',6.77049226164518486159e-02,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
INSERT INTO "trial_params" VALUES(71,12,'depth',3.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 3, "high": 9}}');
INSERT INTO "trial_params" VALUES(72,12,'subsample',1.0,'{"name": "FloatDistribution", "attributes": {"step": 0.25, "low": 0.5, "high": 1.0, "log": false}}');
INSERT INTO "trial_params" VALUES(73,12,'width',10.0,'{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 4, "high": 64}}');
INSERT INTO "trial_params" VALUES(74,12,'booster',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["gbtree", "dart", null]}}');
INSERT INTO "trial_params" VALUES(75,12,'fixed',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [true]}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,13,'fixed_params','{"depth": 5}');
INSERT INTO "trial_system_attributes" VALUES(2,15,'fixed_params','{"depth": 6}');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,4.17082552496539447212e-03,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,1.7956594191270339178e-02,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,1.74530400362087279031e-01,'FINITE');
INSERT INTO "trial_values" VALUES(4,5,0,1.33333333333333325931e+00,'FINITE');
INSERT INTO "trial_values" VALUES(5,6,0,0.000606844986779478,'FINITE');
INSERT INTO "trial_values" VALUES(6,7,0,9.46796318911311551858e-01,'FINITE');
INSERT INTO "trial_values" VALUES(7,8,0,1.0,'FINITE');
INSERT INTO "trial_values" VALUES(8,9,0,3.494169980951830623e-02,'FINITE');
INSERT INTO "trial_values" VALUES(9,10,0,3.63300930429395329407e-03,'FINITE');
INSERT INTO "trial_values" VALUES(10,11,0,4.32476573898949150781e-03,'FINITE');
INSERT INTO "trial_values" VALUES(11,12,0,2.03114767849355559725e-01,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,2,'COMPLETE','2026-11-24 02:41:24.606567','2026-11-24 02:41:24.857474');
INSERT INTO "trials" VALUES(2,1,2,'COMPLETE','2026-11-24 02:41:24.884491','2026-11-24 02:41:25.108088');
INSERT INTO "trials" VALUES(3,2,2,'COMPLETE','2026-11-24 02:41:25.134189','2026-11-24 02:41:25.351813');
INSERT INTO "trials" VALUES(4,3,2,'FAIL','2026-11-24 02:41:25.376731','2026-11-24 02:41:25.515356');
INSERT INTO "trials" VALUES(5,4,2,'PRUNED','2026-11-24 02:41:25.536761','2026-11-24 02:41:25.760409');
INSERT INTO "trials" VALUES(6,5,2,'COMPLETE','2026-11-24 02:41:25.783773','2026-11-24 02:41:26.005099');
INSERT INTO "trials" VALUES(7,6,2,'COMPLETE','2026-11-24 02:41:26.029956','2026-11-24 02:41:26.267687');
INSERT INTO "trials" VALUES(8,7,2,'PRUNED','2026-11-24 02:41:26.288633','2026-11-24 02:41:26.515513');
INSERT INTO "trials" VALUES(9,8,2,'COMPLETE','2026-11-24 02:41:26.540553','2026-11-24 02:41:26.763918');
INSERT INTO "trials" VALUES(10,9,2,'COMPLETE','2026-11-24 02:41:26.787212','2026-11-24 02:41:26.991707');
INSERT INTO "trials" VALUES(11,10,2,'COMPLETE','2026-11-24 02:41:27.022539','2026-11-24 02:41:27.236982');
INSERT INTO "trials" VALUES(12,11,2,'COMPLETE','2026-11-24 02:41:27.260864','2026-11-24 02:41:27.483874');
INSERT INTO "trials" VALUES(13,12,2,'FAIL','2026-11-24 02:41:27.557631','2026-11-24 02:41:27.580716');
INSERT INTO "trials" VALUES(14,13,2,'RUNNING','2026-11-24 02:41:27.606011',NULL);
INSERT INTO "trials" VALUES(15,14,2,'WAITING',NULL,NULL);
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
